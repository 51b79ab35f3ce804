"""The agent of one training process: keeps sums of what the taps see and writes one record per optimizer step."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ref

from ..ring_format import (
    FLAG_BATCH_UNSEEN,
    FLAG_MIXED_SHAPES,
    FLAG_SKIPPED,
    FLAG_STARTUP,
    STEP_RECORD,
    TAIL_RECORD,
)
from . import span_clock
from .guard import failures, site
from .identity import identity_of_process
from .ring import Ring
from .side_file import SideFile
from .span_clock import SpanClock
from .step_counter import NEW_STEP, StepCounter
from .step_sums import Batches, Sums

if TYPE_CHECKING:
    from types import ModuleType

    from ..hookspecs import Undo
    from .batch_shape import Shape
    from .part import Part
    from .publishing import Publishing
    from .taps.model import ModelTap

MYPY = False
if MYPY:
    from typing import Any, Callable


_STEP = site("optimizer step")
_INSTALL = site("install")


_REMEMBERED = ("process", "model", "counted", "budget")


class InGraph:
    """Where a compiled graph that contains an optimizer's step leaves that it ran."""

    def __init__(self) -> None:
        self.stepped: Any = None


class Agent:
    """State shared by the taps, which read and write its attributes: a method call a tap would cost too much."""

    def __init__(self, spool: str) -> None:
        self.spool = spool
        self.undo: list[tuple[str, Undo]] = []
        self.model: ModelTap | None = None
        self.in_graph = InGraph()
        self.publishing: Publishing | None = None
        self.start_anew()

    def start_anew(self) -> None:  # noqa: PLR0915 - the state, one attribute a statement
        """Forget everything but the taps: a new process, or the child of a fork."""
        self.pid = os.getpid()
        self.identity = identity_of_process()
        self.clock = SpanClock(self.identity.process_start)
        self.counter = StepCounter()
        self.ring: Ring | None = None
        self.ring_refused = False
        self.side: SideFile | None = None
        self.in_model = False
        self.counting = os.environ.get("TRAINMETER_COUNT") == "1" and self.identity.rank == 0
        """Whether a training pass is to be counted; off again once it was."""
        self.paused = False
        """While a copy of the model runs: that is nothing of the user's."""
        self.loader_flag = 0
        """FLAG_LOADER_SEEN once a data loader was asked for a batch."""
        self.told: dict[str, dict[str, Any]] = {}
        """The newest events of the kinds that this process's own passport needs."""

        self.pending: list[Shape] = []
        """Shapes of training forwards whose backward has not run yet."""
        self.batches: dict[Shape, int] = {}
        """Micro-batches of the step that is under way, by shape."""
        self.backward_since = False
        self.backward_s = 0.0
        self.in_optimizer = 0
        self._thread_open = True
        """Whether the next optimizer step tells which thread trains."""
        self._backward_s_at_enter = 0.0
        self.optimizer_in_step: int | None = None
        self.optimizer_events = 0
        self._numel: dict[int, int] = {}
        self._optimizers: dict[int, Any] = {}

        self.steps = 0
        self.skipped = 0
        self.batches_of_another = False
        """Whether another rank is given the same batches and counts them."""
        self.unseen = 0
        """Steps in which a backward ran and no batch was seen."""
        self.tokens = 0
        self.samples = 0
        self.last_end = self.identity.process_start
        self.used = Batches()
        self.seconds_at_end = list(self.clock.seconds)
        """The clock's seconds by kind at the end of the last step."""
        self.startup: Sums | None = None
        """The sums at the end of the first step."""
        self.shortest = float("inf")
        self.longest = 0.0
        """Seconds of the shortest and the longest step after the first."""
        self.parts: list[Callable[[], Part | None]] = []
        """The parts of the training, other than all of it, that somebody still holds."""
        self.each_row: list[Callable[[], None]] = []
        """What adapters want called after a step, at most once a second."""
        if self.publishing is not None:
            self.publishing.start_anew()
        self.finished = False
        self._leave_mark()

    def _leave_mark(self) -> None:
        """Let `tm` know that the agent woke in this process, whether it trains or not."""
        try:
            os.close(os.open(os.path.join(self.spool, f"agent-{self.pid}"), os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            # tm and its spool are gone; nobody asks any more.
            return

    # --- taps ---------------------------------------------------------------------------------------------------

    def install(self, name: str, install: Callable[[ModuleType, Agent], Undo], module: ModuleType) -> None:
        """Install one tap and keep its undo; a failure is counted and the module stays untapped."""
        with _INSTALL:
            self.undo.append((name, install(module, self)))

    def uninstall(self) -> None:
        """Take every tap out again, the last first."""
        while self.undo:
            _, undo = self.undo.pop()
            undo()

    def install_plugin(self, name: str, module_name: str, directory: str, tracker: ModuleType) -> None:
        """Load an adapter and let it tap the tracker that was just imported."""
        with site("plugin " + name):
            undo = self.publish().install(name, module_name, directory, tracker)
            if undo is not None:
                self.undo.append((name, undo))

    def publish(self) -> Publishing:
        """The publishing side, made when the first adapter needs it."""
        if self.publishing is None:
            from .publishing import Publishing

            self.publishing = Publishing(self)
        return self.publishing

    def event(self, kind: str, fields: dict[str, Any]) -> None:
        """Append a rare event to the side file."""
        if self.side is None:
            self.side = SideFile(os.path.join(self.spool, self._file_name() + ".jsonl"))
        event = {"rank": self.identity.rank, "pid": self.pid, **fields}
        if kind in _REMEMBERED:
            self.told[kind] = {"type": kind, **event}
        self.side.write(kind, event)

    def _file_name(self) -> str:
        return f"r{self.identity.rank}-{self.pid}"

    def backward_ran(self, seconds: float) -> None:
        """The autograd engine ran on any thread; forwards that waited for it are micro-batches now."""
        if self.paused:
            return
        self.backward_s += seconds
        self.backward_since = True
        pending = self.pending
        if pending:
            batches = self.batches
            for shape in pending:
                batches[shape] = batches.get(shape, 0) + 1
            pending.clear()
        elif self.model is not None and self.model.armed:
            self.model.backward_ran()

    def look_again(self) -> None:
        """Another training may begin, of another model, on another thread: the next optimizer step tells."""
        self._thread_open = True
        self.counter.start_anew()
        if self.model is not None:
            self.model.look_again()

    # --- the optimizer step -------------------------------------------------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer was made. Of another model than the one that is trained: that one may be next."""
        if self.model is not None and self.steps:
            self.model.optimizer_made(optimizer)

    def optimizer_enters(self, optimizer: Any) -> None:
        """A global step pre-hook ran. When the outermost optimizer had raised in its step, the depth is healed."""
        if self.in_optimizer and (
            self.optimizer_in_step == id(optimizer) or self.backward_s != self._backward_s_at_enter
        ):
            # It enters anew, or a backward ran since: whoever was inside is not any more.
            self.in_optimizer = 0
        if not self.in_optimizer:
            self._backward_s_at_enter = self.backward_s
            self.optimizer_in_step = id(optimizer)
            clock = self.clock
            if self._thread_open or not self.steps:
                self._thread_open = False
                clock.thread = get_ident()
            if clock.base != span_clock.STEP:
                clock.set_base(span_clock.STEP)
        self.in_optimizer += 1

    def optimizer_leaves(self, optimizer: Any) -> None:
        """A global step post-hook ran; an outermost one may end a step of the run."""
        self.in_optimizer -= 1
        if self.in_optimizer > 0 and self.optimizer_in_step != id(optimizer):
            return
        # The depth is still positive where a wrapped optimizer raised: the outermost one is leaving now.
        self.in_optimizer = 0
        self.optimizer_events += 1
        key = id(optimizer)
        numel = self._numel.get(key)
        met = numel is None
        if numel is None:
            numel = self._meet(optimizer)
        verdict = self.counter.stepped(key, numel, self.backward_since)
        self.backward_since = False
        if verdict == NEW_STEP:
            if met and self.model is not None:
                self.model.leader_changed(optimizer)
            self.step_ends(monotonic(), 0, optimizer)
        elif self.model is not None and self.counter.leads(key):
            self.model.leader_changed(optimizer)

    def stepped_in_graph(self) -> None:
        """A compiled graph with an optimizer's step in it ran since we looked last: that step ends now."""
        optimizer, self.in_graph.stepped = self.in_graph.stepped, None
        if optimizer is None:
            return
        # Forwards that wait already belong to the next step.
        waiting, self.pending = self.pending, []
        self.optimizer_enters(optimizer)
        self.optimizer_leaves(optimizer)
        self.pending = waiting

    def step_skipped(self, optimizer: Any) -> None:
        """A gradient scaler held the optimizer back: the batch was used, the step was not made."""
        if not self.counter.leads(id(optimizer)):
            return
        self.backward_since = False
        self.step_ends(monotonic(), FLAG_SKIPPED, optimizer)

    def _meet(self, optimizer: Any) -> int:
        """First step of an optimizer: count its parameters, and learn when it is freed."""
        key = id(optimizer)
        numel = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                numel += parameter.numel()
        self._numel[key] = numel

        def freed(_: Any) -> None:
            with _STEP:  # a weak reference's callback that raises is printed on stderr
                self._numel.pop(key, None)
                self._optimizers.pop(key, None)
                self.counter.gone(key)

        self._optimizers[key] = ref(optimizer, freed)
        return numel

    def step_ends(self, now: float, flags: int, optimizer: Any) -> None:
        """Write the step's record, start the sums of the next one, and leave the rest of the loop to `other` time."""
        first = self.startup is None
        if first:
            self._first_step(optimizer)
            flags |= FLAG_STARTUP
            now = monotonic()
        elif self.model is not None and self.model.armed:
            self.model.settle(self, optimizer)
        seconds = self.clock.step_ended(now)
        if flags & FLAG_SKIPPED:
            self.skipped += 1
        else:
            self.steps += 1
        batches = self.batches
        if self.batches_of_another:
            batches.clear()
        tokens, samples, micro, length, target = self.used.add(batches)
        self.tokens += tokens
        self.samples += samples
        if not micro and self.backward_s and not self.batches_of_another:
            # Without a backward no batch was used.
            flags |= FLAG_BATCH_UNSEEN
            self.unseen += 1
        before = self.seconds_at_end
        wall_s = now - self.last_end
        ring = self.ring
        if ring is not None:
            flags |= self.loader_flag
            if len(batches) > 1:
                flags |= FLAG_MIXED_SHAPES
                ring.shapes(self.steps, batches)
            ring.step(
                STEP_RECORD, flags, micro, self.steps, now, tokens, samples, length, target,
                (wall_s, seconds[0] - before[0], seconds[1] - before[1], seconds[2] - before[2],
                 seconds[3] - before[3], seconds[4] - before[4], self.backward_s),
                (self.steps, self.skipped, self.tokens, self.samples, _STEP.count),
            )  # fmt: skip
        if self.parts:
            of_step = [upto - then for upto, then in zip(seconds, before)]
            skipped = int(flags & FLAG_SKIPPED > 0)
            unseen = int(flags & FLAG_BATCH_UNSEEN > 0)
            self.publish().step_of_parts(now, Sums(1 - skipped, skipped, wall_s, of_step, dict(batches), unseen))
        before[:] = seconds
        self.last_end = now
        # A forward whose backward never came (a probe, a validation loss with gradients on) is no micro-batch.
        self.pending.clear()
        batches.clear()
        self.backward_s = 0.0
        if first:
            self.startup = self.sums()
        elif wall_s > self.longest or wall_s < self.shortest:
            self.longest = max(self.longest, wall_s)
            self.shortest = min(self.shortest, wall_s)
        if self.each_row and self.publishing is not None:
            self.publishing.step_ended(now)

    def sums(self) -> Sums:
        """The sums at the end of the last step, as they are now."""
        return Sums(self.steps, self.skipped, self.last_end, list(self.seconds_at_end), self.used.total(), self.unseen)

    def _first_step(self, optimizer: Any) -> None:
        """Announce this process as a trainer: its ring, its identity, its model."""
        self.identity = identity_of_process(self.identity)
        if self.side is not None and not self.side.path.endswith(self._file_name() + ".jsonl"):
            self.side = None
        try:
            self.ring = Ring(os.path.join(self.spool, self._file_name() + ".ring"), self.identity)
            self.clock.page = self.ring.page
        except OSError as error:
            # No space, no directory, no permission: the run goes on unmeasured, and tm says why.
            self.ring_refused = True
            self.event("failure", {"site": "ring", "count": 1, "first": str(error)})
        torch = sys.modules.get("torch")
        self.event(
            "process",
            {
                "local_rank": self.identity.local_rank,
                "world_size": self.identity.world_size,
                "python": sys.version.split()[0],
                "torch": str(getattr(torch, "__version__", "")),
                "started": self.identity.wall_clock - (self.identity.monotonic - self.identity.process_start),
            },
        )
        if self.model is not None:
            self.model.settle(self, optimizer)
        if self.identity.world_size > 1:
            with site("device mesh"):
                from .same_batches import share_batches

                share_batches(self, optimizer)

    # --- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """At the process's exit: let the adapters close, and write what came after the last step."""
        if self.finished or os.getpid() != self.pid:
            return
        self.finished = True
        with site("finish"):
            self.stepped_in_graph()
        if self.publishing is not None:
            with site("finish"):
                self.publishing.finish()
        with site("tail"):
            now = monotonic()
            seconds = [upto - then for upto, then in zip(self.clock.until(now), self.seconds_at_end)]
            if self.ring is not None:
                self.ring.step(
                    TAIL_RECORD, self.loader_flag, 0, self.steps, now, 0, 0, 0, 0,
                    (now - self.last_end, seconds[0], seconds[1], seconds[2], seconds[3], seconds[4], self.backward_s),
                    (self.steps, self.skipped, self.tokens, self.samples, _STEP.count),
                )  # fmt: skip
        for name, place in failures().items():
            self.event("failure", {"site": name, "count": place.count, "first": place.first})
