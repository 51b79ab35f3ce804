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
from ..model_shape import ModelShape
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
    from .emitted import Emitted
    from .span_clock import SpanClock
    from .step_sums import Sums

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
        self._told = agent.sums()
        """The sums that the rows so far have told of."""
        self.losses: dict[str, list[Any]] = {}
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
        if due and steps != self._row_steps and (final or self._after_startup()):
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
        self._agent.each_row.append(work)

    def counts(self) -> dict[str, float]:
        """The sums since the start of the process, by series name; nothing is taken from the window."""
        row = self._measure(Window(0, 0.0, {}, {}), {})
        return {name: row[name] for name in (PREFIX + each for each in CUMULATIVE) if name in row}

    def _after_startup(self) -> bool:
        """Say whether a step ended that is not start-up."""
        agent = self._agent
        return agent.startup is not None and agent.steps + agent.skipped > agent.startup.steps + agent.startup.skipped

    def _make_row(self) -> dict[str, float]:
        """The row of the window, which ends here; another thread than the training one may ask for it."""
        agent = self._agent
        told, self._told = self._told, agent.sums()
        startup = agent.startup
        holds_startup = startup is not None and not told.steps + told.skipped
        steady = self._told.since(startup if holds_startup and startup is not None else told)
        if holds_startup and startup is not None:
            steady.seconds[span_clock.STARTUP] += sum(startup.seconds)
        window = Window(steady.steps + steady.skipped, steady.end, steady.batches, _by_kind(agent, steady.seconds))
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
        totals = Totals(agent.steps, agent.skipped, agent.tokens, agent.samples, agent.used.total(), age)
        return meter.row(window, totals, self._peers.scale(agent))

    def passport(self) -> dict[str, Any] | None:
        """The passport of the run so far, from this process's own memory; None before the first step."""
        agent = self._agent
        startup = agent.startup
        if startup is None:
            return None
        from .own_record import passport_so_far

        events = [*agent.told.values(), _startup_event(agent, startup)]
        events += log_records(self._board.content())
        events.append(_steady_event(agent, startup))
        if self.losses:
            events.append({"type": "losses", "rank": agent.identity.rank, "pid": agent.pid, **self._tags()})
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


def _startup_event(agent: Agent, startup: Sums) -> dict[str, Any]:
    """The first step, all of whose time is start-up."""
    wall_s = sum(startup.seconds)
    return {
        **_steps_event(agent, startup, 1, startup.steps),
        "wall_s": wall_s,
        "time": {"startup": wall_s},
        "startup": True,
    }


def _steady_event(agent: Agent, startup: Sums) -> dict[str, Any]:
    """Every step after the first."""
    event = _steps_event(agent, agent.sums().since(startup), startup.steps + 1, agent.steps)
    event["step_time_s"] = [agent.shortest, agent.longest] if agent.longest else None
    return event


def _by_kind(agent: Agent, seconds: list[float], unseen: Any = ()) -> dict[str, Any]:
    """Seconds by kind; without a data loader that was seen, `data_wait` is left out, or `unseen` where that is None."""
    table: dict[str, Any] = dict(zip(TIME_KINDS, seconds))
    if not agent.loader_flag:
        del table["data_wait"]
        if unseen is None:
            table["data_wait"] = None
    return table


def _steps_event(agent: Agent, sums: Sums, first: int, last: int) -> dict[str, Any]:
    """A `steps` record as the run log has it, summed by this process itself."""
    batches = sums.batches
    return {
        "type": "steps",
        "rank": agent.identity.rank,
        "pid": agent.pid,
        "first": first,
        "last": last,
        "n": sums.steps,
        "skipped": sums.skipped,
        "tokens": sum(b * t * calls for (b, t, _), calls in batches.items()),
        "samples": sum(b * calls for (b, _, _), calls in batches.items()),
        "micro_batches": sum(batches.values()),
        "wall_s": sums.end,
        "time": _by_kind(agent, sums.seconds, None),
        "batches": [[*shape, calls] for shape, calls in batches.items()],
        "startup": False,
    }
