"""The agent of one training process: keeps sums of what the taps see and writes one record per optimizer step."""

from __future__ import annotations

import os
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ref

from ..plain_files import opener
from ..ring_format import FLAG_SKIPPED, FLAG_STARTUP
from . import span_clock
from .ended_steps import EndedSteps
from .guard import failures, site
from .identity import identity_of_process
from .other_threads import OtherThreads
from .ring import Ring
from .same_batches import share_batches
from .side_file import SideFile
from .step_counter import NEW_STEP, StepCounter
from .step_under_way import StepUnderWay
from .used_forwards import take_used

if TYPE_CHECKING:
    from types import ModuleType

    from ..hookspecs import Undo
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
    """Where an optimizer's step in a compiled graph, or in a backward, leaves that it ran."""

    def __init__(self) -> None:
        self.stepped: Any = None


class Agent:
    """What the taps ask when a step is not a usual one, and what everybody else asks."""

    def __init__(self, spool: str) -> None:
        self.spool = spool
        self.undo: list[tuple[str, Undo]] = []
        self.model: ModelTap | None = None
        self.in_graph = InGraph()
        self.publishing: Publishing | None = None
        self.step = StepUnderWay(0.0)
        """One object for good: the taps hold it."""
        self.start_anew()

    def start_anew(self) -> None:
        """Forget everything but the taps: a new process, or the child of a fork."""
        self.pid = os.getpid()
        self.identity = identity_of_process()
        self.step.start_anew(self.identity.process_start)
        self.in_graph.stepped = None
        self.counter = StepCounter()
        self.ended = EndedSteps(self.step, self.identity.process_start)
        self.ring_refused = False
        self.side: SideFile | None = None
        self.counting = os.environ.get("TRAINMETER_COUNT") == "1" and self.identity.rank == 0
        """Whether a training pass is to be counted; off again once it was."""
        self.paused = False
        """While a copy of the model runs: that is nothing of the user's."""
        self.told: dict[str, dict[str, Any]] = {}
        """The newest events of the kinds that this process's own passport needs."""

        self._announcing = False
        self._thread_open = True
        """Whether the next optimizer step tells which thread trains."""
        self._other_threads = OtherThreads(self.step)
        self._numel: dict[int, int] = {}
        self._optimizers: dict[int, Any] = {}

        self.parts: list[Callable[[], Part | None]] = []
        """The parts of the training, other than all of it, that somebody still holds."""
        self.each_row: list[Callable[[], None]] = []
        """What adapters want called after a step, at most once a second."""
        if self.model is not None:
            self.model.inside.clear()
        if self.publishing is not None:
            self.publishing.start_anew()
        self.finished = False
        self._leave_mark()

    def _leave_mark(self) -> None:
        """Let `tm` know that the agent woke in this process, whether it trains or not."""
        try:
            os.close(opener(os.path.join(self.spool, f"agent-{self.pid}"), os.O_CREAT | os.O_WRONLY))
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

    def backward_ran(self, tensors: Any = ()) -> None:
        """The autograd engine ran on any thread, from these tensors; forwards that waited are micro-batches now."""
        if self.paused:
            return
        step = self.step
        step.backwards += 1
        pending = step.all_pending()
        if pending:
            step.leader = 0
            used = len(pending)
            if used > 1 and self.model is not None:
                used = self.model.used_forwards.of(tensors, used)
            take_used(pending, used, step.batches)
        elif self.model is not None and self.model.armed:
            self.model.backward_ran(tensors)

    def look_again(self) -> None:
        """Another training may begin, of another model, on another thread: the next optimizer step tells."""
        self._thread_open = True
        self.step.leader = 0
        self.counter.start_anew()
        if self.model is not None:
            self.model.look_again()

    def is_beside(self) -> bool:
        """Say whether this thread runs beside a training thread that is at work."""
        elsewhere = self.ended.startup is not None and get_ident() != self.step.thread
        return elsewhere and not self._other_threads.rests()

    def trains_here_now(self) -> bool:
        """Asked on another thread that calls the model: where the training's own rests, this one trains now."""
        if not self._other_threads.rests():
            return False
        self._other_threads.train_here()
        return True

    # --- the optimizer step -------------------------------------------------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer was made. Of another model than the one that is trained: that one may be next."""
        if self.model is not None and self.ended.startup is not None and not self.is_beside():
            self.model.optimizer_made(optimizer)

    def optimizer_enters(self, optimizer: Any) -> None:
        """A global step pre-hook ran. When the outermost optimizer had raised in its step, the depth is healed."""
        step = self.step
        if get_ident() != step.thread and not self._thread_open and self._other_threads.pass_over(self, optimizer):
            return
        if step.in_optimizer and (step.optimizer == id(optimizer) or step.backwards != step.backwards_at_enter):
            # It enters anew, or a backward ran since: whoever was inside is not any more.
            step.in_optimizer = 0
        if not step.in_optimizer:
            step.backwards_at_enter = step.backwards
            step.optimizer = id(optimizer)
            if self._thread_open or not self.ended.startup:
                self._thread_open = False
                self._other_threads.train_here()
            if step.base != span_clock.STEP:
                step.set_base(span_clock.STEP)
        step.in_optimizer += 1

    def optimizer_leaves(self, optimizer: Any) -> None:
        """A global step post-hook ran; an outermost one may end a step of the run."""
        step = self.step
        if get_ident() != step.thread:
            return
        step.in_optimizer -= 1
        if step.in_optimizer > 0 and step.optimizer != id(optimizer):
            return
        # The depth is still positive where a wrapped optimizer raised: the outermost one is leaving now.
        step.in_optimizer = 0
        step.optimizer_events += 1
        key = id(optimizer)
        numel = self._numel.get(key)
        met = numel is None
        if numel is None:
            numel = self._meet(optimizer)
        verdict = self.counter.stepped(key, numel, step.backwards != step.backwards_at_event)
        step.backwards_at_event = step.backwards
        step.leader = 0
        if verdict == NEW_STEP:
            if met and self.model is not None:
                self.model.leader_changed(optimizer)
            self.step_ends(monotonic(), 0, optimizer)
        elif self.model is not None and self.counter.leads(key):
            self.model.leader_changed(optimizer)

    def stepped_in_graph(self) -> None:
        """A compiled graph or a backward with an optimizer's step in it ran since we looked: that step ends now."""
        optimizer, self.in_graph.stepped = self.in_graph.stepped, None
        if optimizer is None:
            return
        # Forwards that wait already belong to the next step.
        waiting, self.step.pending = self.step.all_pending(), []
        self.optimizer_enters(optimizer)
        self.optimizer_leaves(optimizer)
        if waiting:
            self.step.pending = waiting
            self.step.leader = 0

    def step_skipped(self, optimizer: Any) -> None:
        """A gradient scaler held the optimizer back: the batch was used, the step was not made."""
        if not self.counter.leads(id(optimizer)) or get_ident() != self.step.thread:
            return
        self.step.backwards_at_event = self.step.backwards
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
            if self.finished:  # at the interpreter's end an optimizer may outlive what this module is made of
                return
            with _STEP:  # a weak reference's callback that raises is printed on stderr
                self._numel.pop(key, None)
                self._optimizers.pop(key, None)
                self.counter.gone(key)
                self.step.leader = 0

        self._optimizers[key] = ref(optimizer, freed)
        return numel

    def step_ends(self, now: float, flags: int, optimizer: Any) -> None:
        """Write the step's record, start the sums of the next one, and leave the rest of the loop to `other` time."""
        step, model = self.step, self.model
        if self.ended.startup is None:
            if self._announcing:  # another thread's first step is just that
                return
            self._announcing = True
            try:
                self._first_step(optimizer, skipped=bool(flags & FLAG_SKIPPED))
            finally:
                self._announcing = False
            flags |= FLAG_STARTUP
            now = monotonic()
        elif model is not None and model.armed:
            model.settle(self, optimizer)
        batches = step.all_batches()
        flags, added = self.ended.add(now, tuple(step.step_ended(now)), flags, batches)
        if self.parts:
            self.publish().step_of_parts(now, added)
        # A forward whose backward never came (a probe, a validation loss with gradients on) is no micro-batch.
        step.all_pending().clear()
        step.backwards_at_end = step.backwards
        usual = len(batches) == 1 and self.ended.sequence_parts == 1 and not flags & FLAG_SKIPPED
        if usual and not self.parts and not (model and model.armed):
            [(step.shape, step.usual_calls)] = batches.items()
            step.leader = id(optimizer)
            step.written_at = now
        else:
            # A skipped step comes here past `optimizer_leaves`: what is noted now would be taken to be like its record.
            step.leader = 0
        batches.clear()
        self._row_may_be_due(now)

    def usual_steps_ended(self, now: float) -> None:
        """Steps like the one before ended, the last of them at `now`."""
        self.ended.catch_up()
        self._row_may_be_due(now)

    def _row_may_be_due(self, now: float) -> None:
        if self.each_row and self.publishing is not None:
            self.publishing.step_ended(now)

    def _first_step(self, optimizer: Any, *, skipped: bool) -> None:
        """Announce this process as a trainer: its ring, its identity, its model."""
        self.identity = identity_of_process(self.identity)
        if self.side is not None and not self.side.path.endswith(self._file_name() + ".jsonl"):
            self.side = None
        try:
            self.ended.ring = Ring(os.path.join(self.spool, self._file_name() + ".ring"), self.identity)
            self.step.page = self.ended.ring.page
        except OSError as error:
            # No space, no directory, no permission: the run goes on unmeasured, and tm says why.
            self.ring_refused = True
            self.event("failure", {"site": "ring", "count": 1, "first": str(error)})
        from .announced import process_record

        self.event("process", process_record(self.identity, optimizer, skipped=skipped))
        if self.model is not None:
            self.model.settle(self, optimizer)
        if self.identity.world_size > 1:
            with site("device mesh"):
                share_batches(self, optimizer)

    # --- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """At the process's exit: let the adapters close, and write what came after the last step."""
        if self.finished or os.getpid() != self.pid:
            return
        self.finished = True
        with site("finish"):
            self.stepped_in_graph()
            self.ended.catch_up(wait_s=1.0)
        if self.publishing is not None:
            with site("finish"):
                self.publishing.finish()
        with site("tail"):
            self.ended.add_tail(monotonic())
        for name, place in failures().items():
            self.event("failure", {"site": name, "count": place.count, "first": place.first})
