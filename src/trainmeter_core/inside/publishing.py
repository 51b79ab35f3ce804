"""The publishing side of the agent: what adapters may ask for (hookspecs.AgentFace), and when a row is due."""

from __future__ import annotations

import json
import os
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ref

from ..flops import HEADLINE
from ..meter import Budget, Meter, Totals, Window, parse_budget
from ..model_shape import ModelShape
from ..readings import Absent
from ..resumption import of_the_run
from ..series import CUMULATIVE, PREFIX
from ..shape_from import shape_of
from ..weight_traffic import traffic_of
from . import span_clock
from .board import Board, log_records, readings_of
from .guard import site
from .part import Part, Whole, by_kind
from .peers import Peers
from .sums_before import SumsBefore

if TYPE_CHECKING:
    from types import ModuleType

    from ..flops.counted import Counted
    from ..hookspecs import Undo
    from .agent import Agent
    from .batch_shape import Shape
    from .emitted import Emitted
    from .span_clock import SpanClock
    from .step_sums import Sums

MYPY = False
if MYPY:
    from typing import Any, Callable, Mapping

    from .guard import Site

ROW_INTERVAL_S = 1.0
_LOSSES_INTERVAL_S = 5.0


_LOGGING = site("logging time")


class _LogCall:
    """A user's tracker call: counted as logging time when it runs on the training thread."""

    __slots__ = ("_clock", "_outer")

    def __init__(self, clock: SpanClock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._outer = span_clock.ELSEWHERE
        try:
            self._outer = self._clock.enter(span_clock.LOGGING)
        except Exception as error:  # noqa: BLE001 - anything of ours: the user's call comes next
            _LOGGING.failed(error)

    def __exit__(self, *_: object) -> None:
        try:
            self._clock.leave(self._outer)
        except Exception as error:  # noqa: BLE001 - the same: the user's call has a result
            _LOGGING.failed(error)


class Publishing:
    """Holds the window since the last row, the losses and the loaded adapters."""

    row_interval_s = ROW_INTERVAL_S

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._plugins: dict[str, Any] = {}
        self._before_passport: list[Callable[[], None]] = []
        self.start_anew()

    def start_anew(self) -> None:
        """Forget everything but the adapters: a new process, or the child of a fork."""
        agent = self._agent
        self._options: dict[str, Any] = json.loads(os.environ.get("TRAINMETER_OPTIONS", "{}"))
        self._budget: Budget | None = parse_budget(self._options)
        self._meter: Meter | None = None
        self._earlier: dict[Shape, int] = {}
        """Micro-batches of earlier models."""
        self._earlier_flops: int | Absent = 0
        self._board = Board(agent.spool)
        self._peers = Peers(agent.spool)
        self._before = SumsBefore(agent)
        self._last_row = 0.0
        self._row: dict[str, float] | None = None
        self._taken: dict[str, int] = {}
        self._row_steps = agent.ended.steps
        self._told = agent.ended.sums()
        """The sums that the rows so far have told of."""
        self._left_out: list[Sums] = []
        """First steps of later parts, and the seconds from a part's begin to the end of its first step, since then."""
        self._begun_s = 0.0
        self._whole = Whole(agent)
        self._losses_written = 0.0
        self._losses_changed = False
        self._published: dict[str, dict[str, str]] = {}
        self._emitted: Emitted | None = None
        self._each_row_at = 0.0

    @property
    def emitted(self) -> Emitted:
        """What the user's own code emits; made when it first does."""
        if self._emitted is None:
            from .emitted import Emitted

            self._emitted = Emitted(self._agent)
        return self._emitted

    # --- what the agent tells -----------------------------------------------------------------------------------

    def model_found(self, description: dict[str, Any]) -> None:
        """The model is known: so are its FLOPs. What an earlier one has spent stays as it is."""
        if self._meter is not None:
            self._earlier_flops = self._flops()
            self._earlier = self._agent.ended.used.total()
        found = shape_of(description)
        shape = found if isinstance(found, Absent) else found[0]
        peak = self._options.get("peak_tflops")
        self._meter = Meter(
            shape,
            ranks=max(1, self._agent.identity.world_size),
            headline=self._options.get("convention") or HEADLINE,
            budget=self._budget,
            **({"peak_tflops": float(peak)} if peak else {}),
        )
        self._meter.recompute = description.get("recompute")
        self._meter.traffic = traffic_of(description, shape)

    def depends_on_sizes(self) -> bool:
        """Whether the model's FLOPs are known for the sizes of its first inputs alone."""
        shape = None if self._meter is None else self._meter.shape
        return isinstance(shape, ModelShape) and any(stream.is_seen for stream in shape.streams())

    def sizes_vary(self, description: dict[str, Any]) -> None:
        """They are not: what is published from now on leaves out what depends on them."""
        found = shape_of(description)
        if self._meter is not None and not isinstance(found, Absent):
            self._meter.reshape(found[0])

    def counted(self, counted: Counted) -> None:
        """What a training pass executes was counted."""
        if self._meter is not None:
            self._meter.counted = counted

    def budget_found(self, budget: Budget) -> None:
        """The framework's own goal is known; one that the user gave to `tm` stands."""
        if self._budget is None:
            self._budget = budget
            if self._meter is not None:
                self._meter.budget = budget

    def step_of_parts(self, now: float, step: Sums) -> None:
        """Add a step that ended at `now` to the later parts. The first one of a part is start-up: no rate has it."""
        agent = self._agent
        agent.parts = [part for part in agent.parts if part() is not None]
        begun: float | None = None
        for each in agent.parts:
            part = each()
            if part is not None:
                first = part.startup is None
                part.step(now, step)
                if first and part.startup is not None:
                    begun = part.startup["wall_s"]
        if begun is not None and agent.ended.startup is not None:
            self._begun_s += begun
            self._left_out.append(step)

    def step_ended(self, now: float) -> None:
        """Call what adapters want called between rows, if a row's time has passed."""
        if now - self._each_row_at >= ROW_INTERVAL_S:
            self._each_row_at = now
            place = site("row")
            for work in self._agent.each_row:
                if place.on:
                    with place:
                        work()

    def finish(self) -> None:
        """Let every adapter close, and write the losses."""
        for name, manager in self._plugins.items():
            with site("plugin " + name):
                manager.hook.finish(agent=self)
        if self._emitted is not None:
            self._emitted.flush()
        self._write_losses()

    def install(self, name: str, module_name: str, directory: str, tracker: ModuleType) -> Undo | None:
        """Load an adapter, alone, and let it tap its tracker."""
        manager = self._plugins.get(name)
        if manager is None:
            from .loader import load_pluggy, load_plugin

            load_pluggy()
            from ..plugins import manager_of_one

            manager = self._plugins[name] = manager_of_one(name, load_plugin(module_name, directory))
        undos = manager.hook.install_tap(module=tracker, agent=self)
        return undos[0] if undos else None

    # --- hookspecs.AgentFace ------------------------------------------------------------------------------------

    def logging(self) -> _LogCall:
        """Time of the user's own tracker call."""
        return _LogCall(self._agent.step)

    def guard(self, name: str) -> Site:
        """The guard of one site."""
        return site(name)

    def publishes_to(self, tracker: str, **where: str) -> None:
        """Announce where the run can be looked at."""
        if self._published.get(tracker) != where:
            self._published[tracker] = dict(where)
            for part in self._open_parts():
                part.published(tracker, dict(where))
            self._agent.event("tracker", {"tracker": tracker, "where": where})

    def blocked(self, call: str, seconds: float, advice: str) -> None:
        """Leave word for `tm`, which knows how long the run was."""
        self._agent.event("blocked", {"call": call, "seconds": seconds, "advice": advice})

    def steps_ended(self) -> int:
        """Optimizer steps of this process that have ended."""
        agent = self._agent
        if agent.in_graph.stepped is not None and get_ident() == agent.step.thread:
            agent.stepped_in_graph()
        return agent.ended.steps

    def observe(self, scalars: Mapping[str, float], step: int | None, after: int | None = None) -> None:
        """Keep first, last and best of what looks like a loss, at the optimizer step it was logged after.

        Where no optimizer is seen, the user's own step stands.
        """
        kept = self._whole.observe(scalars, step, after)
        for each in self._agent.parts:
            part = each()
            if part is not None:
                part.observe(scalars, step, after)
        if kept:
            self._losses_changed = True
            if monotonic() - self._losses_written >= _LOSSES_INTERVAL_S:
                self._write_losses()

    def row(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        """The row that is due, if one is; every reader is given each row once."""
        agent = self._agent
        if agent.in_graph.stepped is not None and get_ident() == agent.step.thread:
            agent.stepped_in_graph()
        now, steps = monotonic(), agent.ended.steps
        due = final or now - self._last_row >= ROW_INTERVAL_S
        if due and steps != self._row_steps and (final or self._after_startup()):
            self._last_row = now
            self._row_steps = steps
            if final or now - self._losses_written >= _LOSSES_INTERVAL_S:
                self._write_losses()
            self._row = self._make_row()
        if self._row is None or self._taken.get(reader) == self._row_steps:
            return None
        self._taken[reader] = self._row_steps
        return dict(self._row)

    def row_of_run(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        """The row that is due, with the sums of the run's earlier processes in its own."""
        if self._agent.ended.startup is None:
            return None
        before = self._before.known(final=final)
        row = None if before is None else self.row(final, reader)
        return of_the_run(row, before) if row and before is not None else None

    def each_row(self, work: Callable[[], None]) -> None:
        """Call after an optimizer step, at most once a second."""
        self._agent.each_row.append(work)

    def before_passport(self, work: Callable[[], None]) -> None:
        """Call before a passport is made."""
        self._before_passport.append(work)

    def counts(self) -> dict[str, float]:
        """The sums since the start of the process, by series name; nothing is taken from the window."""
        row = self._measure(Window(0, 0.0, {}, {}), {})
        return {name: row[name] for name in (PREFIX + each for each in CUMULATIVE) if name in row}

    def readings(self) -> dict[str, float]:
        """What lies on the board now."""
        return {PREFIX + name: value for name, value in readings_of(self._board.content()).items()}

    def _after_startup(self) -> bool:
        """Say whether a step ended that is not start-up."""
        ended = self._agent.ended
        first = ended.startup
        return first is not None and ended.steps + ended.skipped > first.steps + first.skipped

    def _make_row(self) -> dict[str, float]:
        """The row of the window, which ends here; another thread than the training one may ask for it."""
        agent = self._agent
        told, self._told = self._told, agent.ended.sums()
        startup = agent.ended.startup
        started = startup is not None and not told.steps + told.skipped
        steady = self._told.since(startup if started and startup is not None else told)
        for step in self._left_out:
            steady = steady.since(step)
        if started and startup is not None:
            steady.seconds[span_clock.STARTUP] += sum(startup.seconds)
        steady.seconds[span_clock.STARTUP] += self._begun_s
        self._left_out, self._begun_s = [], 0.0
        window = Window(steady.steps + steady.skipped, steady.end, steady.batches, by_kind(agent, steady.seconds))
        board = self._board.content()
        row = self._measure(window, board)
        for name, value in readings_of(board).items():
            row.setdefault(PREFIX + name, value)
        return row

    def _measure(self, window: Window, board: dict[str, Any]) -> dict[str, float]:
        agent = self._agent
        meter = self._meter or Meter(Absent("the model was not seen"))
        meter.ranks = max(1, round(agent.identity.world_size * board.get("devices_per_rank", 1.0)))
        if board.get("peak_tflops"):
            meter.peak_tflops = board["peak_tflops"]
        age = monotonic() - agent.identity.process_start
        ended, own = agent.ended, self._own_batches()
        totals = Totals(
            ended.steps, ended.skipped, ended.tokens, ended.samples, own, age, self._earlier_flops,
            ended.steps if ended.batches_of_another else ended.unseen,
        )  # fmt: skip
        return meter.row(window, totals, self._peers.scale(agent))

    def _own_batches(self) -> dict[Shape, int]:
        """Micro-batches of the model that is trained now."""
        before = self._earlier
        batches = {shape: calls - before.get(shape, 0) for shape, calls in self._agent.ended.used.total().items()}
        return {shape: calls for shape, calls in batches.items() if calls} if before else batches

    def _flops(self) -> int | Absent:
        """The FLOPs that this rank has spent so far, on all its models, under the headline convention."""
        meter, earlier = self._meter, self._earlier_flops
        if meter is None or isinstance(earlier, Absent):
            return earlier
        own = meter.flops(meter.headline, self._own_batches())
        return own if isinstance(own, Absent) else own + earlier

    def part(self) -> Part:
        """Begin a part of the process's training."""
        if not self._agent.is_beside():
            self._agent.look_again()
        part = Part(self._agent)
        self._agent.parts.append(ref(part))
        return part

    def passport(self, part: Any = None) -> dict[str, Any] | None:
        """The passport so far, from this process's own memory; None before the first step."""
        for work in self._before_passport:
            with site("losses"):
                work()
        told = (part or self._whole).events(log_records(self._board.content()))
        if not told:
            return None
        from .own_record import passport_so_far

        started = None if part is None else part.started
        return passport_so_far(self.run_directory(), [*self._agent.told.values(), *told], started)

    def run_directory(self) -> str:
        """Where `tm` keeps the run of this process."""
        from .own_record import run_directory

        return run_directory(self._agent)

    @property
    def losses(self) -> dict[str, list[Any]]:
        """The losses that the process logged: count, first, last and best by tag."""
        return self._whole.losses

    def _open_parts(self) -> list[Part | Whole]:
        return [self._whole, *(part for part in (each() for each in self._agent.parts) if part is not None)]

    def _write_losses(self) -> None:
        if self._losses_changed:
            self._losses_written = monotonic()
            self._losses_changed = False
            self._agent.event("losses", self._whole.tags())
