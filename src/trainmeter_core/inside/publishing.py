"""The publishing side of the agent: what adapters may ask for (hookspecs.AgentFace), and when a row is due."""

from __future__ import annotations

import json
import os
from _thread import get_ident
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING

from ..flops import HEADLINE
from ..meter import Budget, Meter, Totals, Window, parse_budget
from ..readings import Absent
from ..series import CUMULATIVE, PREFIX, TIME_KINDS
from ..shape_from import shape_of
from . import span_clock
from .board import Board, log_records, readings_of
from .guard import site
from .peers import Peers

if TYPE_CHECKING:
    from types import ModuleType

    from ..flops.counted import Counted
    from ..hookspecs import Undo
    from .agent import Agent
    from .batch_shape import Shape
    from .emitted import Emitted
    from .span_clock import SpanClock

MYPY = False
if MYPY:
    from typing import Any, Callable, Mapping

    from .guard import Site

ROW_INTERVAL_S = 1.0
_LOSSES_INTERVAL_S = 5.0
_MOST_TAGS = 200


class _LogCall:
    """A user's tracker call: counted as logging time when it runs on the training thread."""

    __slots__ = ("_clock", "_outer")

    def __init__(self, clock: SpanClock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._outer = self._clock.enter(span_clock.LOGGING)

    def __exit__(self, *_: object) -> None:
        self._clock.leave(self._outer)


class Publishing:
    """Holds the window since the last row, the losses and the loaded adapters."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._options: dict[str, Any] = json.loads(os.environ.get("TRAINMETER_OPTIONS", "{}"))
        self._budget: Budget | None = parse_budget(self._options)
        self._meter: Meter | None = None
        self._plugins: dict[str, Any] = {}
        self._board = Board(agent.spool)
        self._peers = Peers(agent.spool)
        self._last_row = 0.0
        self._row: dict[str, float] | None = None
        self._taken: dict[str, int] = {}
        self._row_steps = agent.steps
        self._steps = 0
        self._rate_s = 0.0
        self._batches: dict[Shape, int] = {}
        self._seconds = [0.0] * len(TIME_KINDS)
        self.losses: dict[str, list[Any]] = {}
        self._losses_written = 0.0
        self._losses_changed = False
        self._published: dict[str, dict[str, str]] = {}
        self._startup: dict[str, Any] | None = None
        self._steady = _Steady(agent)
        self._emitted: Emitted | None = None
        self._each_row: list[Callable[[], None]] = []
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
        """The model is known: so are its FLOPs."""
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

    def step_ended(self, seconds: list[float], wall_s: float, startup: bool, batches: dict[Shape, int]) -> None:
        """Add a step to the window; what came before the end of the first step is startup."""
        mine = self._seconds
        if startup:
            mine[span_clock.STARTUP] += sum(seconds)
            self._startup = _steps_event(self._agent, wall_s, {"startup": wall_s}, batches, 1)
            return
        self._steady.add(wall_s, seconds, batches)
        self._steps += 1
        self._rate_s += wall_s
        for kind, spent in enumerate(seconds):
            mine[kind] += spent
        for shape, calls in batches.items():
            self._batches[shape] = self._batches.get(shape, 0) + calls
        if self._each_row:
            self._call_each_row()

    def _call_each_row(self) -> None:
        now = monotonic()
        if now - self._each_row_at >= ROW_INTERVAL_S:
            self._each_row_at = now
            place = site("row")
            for work in self._each_row:
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
        self._write_losses(force=True)

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
        return _LogCall(self._agent.clock)

    def guard(self, name: str) -> Site:
        """The guard of one site."""
        return site(name)

    def publishes_to(self, tracker: str, **where: str) -> None:
        """Announce where the run can be looked at."""
        if self._published.get(tracker) != where:
            self._published[tracker] = dict(where)
            self._agent.event("tracker", {"tracker": tracker, "where": where})

    def blocked(self, call: str, seconds: float, advice: str) -> None:
        """Leave word for `tm`, which knows how long the run was."""
        self._agent.event("blocked", {"call": call, "seconds": seconds, "advice": advice})

    def observe(self, scalars: Mapping[str, float], step: int | None) -> None:
        """Keep first, last and best of what looks like a loss, at the optimizer step it was logged after.

        Where no optimizer is seen, the user's own step stands. A loss that is not finite is kept as None, and is never
        the best.
        """
        now = self._agent.steps or max(0, step or 0)
        for tag, value in scalars.items():
            if "loss" not in tag.lower() or tag.startswith(PREFIX):
                continue
            kept = self.losses.get(tag)
            finite = isfinite(value)
            logged = (value if finite else None, now)
            if kept is None:
                if len(self.losses) >= _MOST_TAGS:
                    continue
                self.losses[tag] = [1, logged, logged, logged]
            else:
                kept[0] += 1
                kept[2] = logged
                if finite and (kept[3][0] is None or value < kept[3][0]):
                    kept[3] = logged
            self._losses_changed = True
        self._write_losses(force=False)

    def row(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        """The row that is due, if one is; every reader is given each row once."""
        now = monotonic()
        if get_ident() == self._agent.clock.thread:
            self._agent.stepped_in_graph()
        steps = self._agent.steps
        due = final or now - self._last_row >= ROW_INTERVAL_S
        if due and steps != self._row_steps and (self._steps or final):
            self._last_row = now
            self._row_steps = steps
            self._write_losses(force=final)
            self._row = self._make_row()
        if self._row is None or self._taken.get(reader) == self._row_steps:
            return None
        self._taken[reader] = self._row_steps
        return dict(self._row)

    def each_row(self, work: Callable[[], None]) -> None:
        """Call after an optimizer step, at most once a second."""
        self._each_row.append(work)

    def counts(self) -> dict[str, float]:
        """The sums since the start of the process, by series name; nothing is taken from the window."""
        row = self._measure(Window(0, 0.0, {}, {}), {})
        return {name: row[name] for name in (PREFIX + each for each in CUMULATIVE) if name in row}

    def readings(self) -> dict[str, float]:
        """What lies on the board now."""
        return {PREFIX + name: value for name, value in readings_of(self._board.content()).items()}

    def _make_row(self) -> dict[str, float]:
        """The row of the window, which ends here; another thread than the training one may ask for it."""
        seconds = _by_kind(self._agent, self._seconds)
        window = Window(self._steps, self._rate_s, self._batches, seconds)
        self._steps, self._rate_s, self._batches = 0, 0.0, {}
        self._seconds = [0.0] * len(TIME_KINDS)
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
        totals = Totals(agent.steps, agent.skipped, agent.tokens, agent.samples, dict(agent.total_batches), age)
        return meter.row(window, totals, self._peers.scale(agent))

    def passport(self) -> dict[str, Any] | None:
        """The passport of the run so far, from this process's own memory; None before the first step."""
        if self._startup is None:
            return None
        from .own_record import passport_so_far

        events = [*self._agent.told.values(), self._startup]
        events += log_records(self._board.content())
        events.append(self._steady.event())
        if self.losses:
            events.append({"type": "losses", "rank": self._agent.identity.rank, "pid": self._agent.pid, **self._tags()})
        return passport_so_far(os.environ.get("TRAINMETER_RUN", ""), events)

    def _tags(self) -> dict[str, Any]:
        return {
            "tags": {
                tag: {"count": count, "first": list(first), "last": list(last), "best": list(best)}
                for tag, (count, first, last, best) in self.losses.items()
            }
        }

    def _write_losses(self, force: bool) -> None:
        now = monotonic()
        if not self._losses_changed or (not force and now - self._losses_written < _LOSSES_INTERVAL_S):
            return
        self._losses_written = now
        self._losses_changed = False
        self._agent.event("losses", self._tags())


class _Steady:
    """Sums over every step after the first."""

    __slots__ = ("_agent", "batches", "longest", "seconds", "shortest", "wall_s")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.wall_s = 0.0
        self.shortest = float("inf")
        self.longest = 0.0
        self.seconds = [0.0] * len(TIME_KINDS)
        self.batches: dict[Shape, int] = {}

    def add(self, wall_s: float, seconds: list[float], batches: dict[Shape, int]) -> None:
        self.wall_s += wall_s
        self.shortest = min(self.shortest, wall_s)
        self.longest = max(self.longest, wall_s)
        for kind, spent in enumerate(seconds):
            self.seconds[kind] += spent
        for shape, calls in batches.items():
            self.batches[shape] = self.batches.get(shape, 0) + calls

    def event(self) -> dict[str, Any]:
        steps = self._agent.steps - 1
        seconds = _by_kind(self._agent, self.seconds, None)
        event = _steps_event(self._agent, self.wall_s, seconds, self.batches, steps)
        event["step_time_s"] = [self.shortest, self.longest] if self.longest else None
        return event


def _by_kind(agent: Agent, seconds: list[float], unseen: Any = ()) -> dict[str, Any]:
    """Seconds by kind; without a data loader that was seen, `data_wait` is left out, or `unseen` where that is None."""
    table: dict[str, Any] = dict(zip(TIME_KINDS, seconds))
    if not agent.loader_flag:
        del table["data_wait"]
        if unseen is None:
            table["data_wait"] = None
    return table


def _steps_event(
    agent: Agent, wall_s: float, seconds: dict[str, Any], batches: dict[Shape, int], steps: int
) -> dict[str, Any]:
    """A `steps` record as the run log has it, summed by this process itself."""
    return {
        "type": "steps",
        "rank": agent.identity.rank,
        "pid": agent.pid,
        "first": 1 if "startup" in seconds and steps == 1 else 2,
        "last": agent.steps,
        "n": steps,
        "skipped": agent.skipped if steps > 1 else 0,
        "tokens": sum(b * t * calls for (b, t, _), calls in batches.items()),
        "samples": sum(b * calls for (b, _, _), calls in batches.items()),
        "micro_batches": sum(batches.values()),
        "wall_s": wall_s,
        "time": seconds,
        "batches": [[*shape, calls] for shape, calls in batches.items()],
        "startup": seconds.keys() == {"startup"},
    }
