"""The publishing side of the agent: what adapters may ask for (hookspecs.AgentFace), and when a row is due."""

from __future__ import annotations

import json
import os
from _thread import get_ident
from math import isfinite
from time import monotonic

from ..flops import HEADLINE
from ..meter import Meter, Totals, Window, parse_budget
from ..readings import Absent
from ..series import PREFIX, TIME_KINDS
from ..shape_from import shape_of
from . import span_clock
from .board import Board
from .guard import site
from .peers import Peers

MYPY = False
if MYPY:
    from types import ModuleType
    from typing import Any, Dict, List, Mapping, Optional

    from ..hookspecs import Undo
    from .agent import Agent
    from .batch_shape import Shape
    from .emitted import Emitted
    from .guard import Site

ROW_INTERVAL_S = 1.0
_LOSSES_INTERVAL_S = 5.0
_MOST_TAGS = 200


class _LogCall:
    """A user's tracker call: counted as logging time; one object serves all calls of the training thread."""

    __slots__ = ("_agent", "_outer")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._outer: List[int] = []

    def __enter__(self) -> None:
        outer = self._agent.clock.enter(span_clock.LOGGING)
        if outer != span_clock.ELSEWHERE:
            self._outer.append(outer)

    def __exit__(self, *_: object) -> None:
        clock = self._agent.clock
        if self._outer and get_ident() == clock.thread:
            clock.leave(self._outer.pop())


class Publishing:
    """Holds the window since the last row, the losses and the loaded adapters."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._options: Dict[str, Any] = json.loads(os.environ.get("TRAINMETER_OPTIONS", "{}"))
        self._meter: Optional[Meter] = None
        self._plugins: Dict[str, Any] = {}
        self._log_call = _LogCall(agent)
        self._board = Board(agent.spool)
        self._peers = Peers(agent.spool)
        self._last_row = 0.0
        self._row_steps = agent.steps
        self._steps = 0
        self._rate_s = 0.0
        self._batches: Dict[Shape, int] = {}
        self._seconds = [0.0] * len(TIME_KINDS)
        self.losses: Dict[str, List[Any]] = {}
        self._losses_written = 0.0
        self._losses_changed = False
        self._published: Dict[str, Dict[str, str]] = {}
        self._startup: Optional[Dict[str, Any]] = None
        self._steady = _Steady(agent)
        self._emitted: Optional[Emitted] = None

    @property
    def emitted(self) -> Emitted:
        """What the user's own code emits; made when it first does."""
        if self._emitted is None:
            from .emitted import Emitted

            self._emitted = Emitted(self._agent)
        return self._emitted

    # --- what the agent tells -----------------------------------------------------------------------------------

    def model_found(self, description: Dict[str, Any]) -> None:
        """The model is known: so are its FLOPs."""
        found = shape_of(description)
        shape = found if isinstance(found, Absent) else found[0]
        peak = self._options.get("peak_tflops")
        self._meter = Meter(
            shape,
            ranks=max(1, self._agent.identity.world_size),
            headline=self._options.get("convention") or HEADLINE,
            budget=parse_budget(self._options),
            **({"peak_tflops": float(peak)} if peak else {}),
        )

    def step_ended(self, seconds: List[float], wall_s: float, startup: bool, batches: Dict[Shape, int]) -> None:
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

    def finish(self) -> None:
        """Let every adapter close, and write the losses."""
        for name, manager in self._plugins.items():
            with site("plugin " + name):
                manager.hook.finish(agent=self)
        if self._emitted is not None:
            self._emitted.flush()
        self._write_losses(force=True)

    def install(self, name: str, module_name: str, directory: str, tracker: ModuleType) -> Optional[Undo]:
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
        return self._log_call

    def guard(self, name: str) -> Site:
        """The guard of one site."""
        return site(name)

    def publishes_to(self, tracker: str, **where: str) -> None:
        """Announce where the run can be looked at."""
        if self._published.get(tracker) != where:
            self._published[tracker] = dict(where)
            self._agent.event("tracker", {"tracker": tracker, "where": where})

    def observe(self, scalars: Mapping[str, float], step: Optional[int]) -> None:
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

    def row(self, final: bool = False) -> Optional[Dict[str, float]]:
        """The row that is due, if one is."""
        now = monotonic()
        if not final and now - self._last_row < ROW_INTERVAL_S:
            return None
        agent = self._agent
        agent.stepped_in_graph()
        if agent.steps == self._row_steps or (not self._steps and not final):
            return None
        self._last_row = now
        self._write_losses(force=final)
        row = self._make_row()
        self._row_steps = agent.steps
        self._steps, self._rate_s, self._batches = 0, 0.0, {}
        self._seconds = [0.0] * len(TIME_KINDS)
        return row

    def _make_row(self) -> Dict[str, float]:
        agent = self._agent
        meter = self._meter or Meter(Absent("the model was not seen"))
        meter.ranks = max(1, agent.identity.world_size)
        seconds = dict(zip(TIME_KINDS, self._seconds))
        window = Window(self._steps, self._rate_s, self._batches, seconds)
        totals = Totals(agent.steps, agent.skipped, agent.tokens, agent.samples, agent.total_batches)
        row = meter.row(window, totals, self._peers.scale(agent))
        for name, value in self._board.series().items():
            row.setdefault(PREFIX + name, value)
        return row

    def passport(self) -> Optional[Dict[str, Any]]:
        """The passport of the run so far, from this process's own memory; None before the first step."""
        if self._startup is None:
            return None
        from .own_record import passport_so_far

        events = [*self._agent.told.values(), self._startup, self._steady.event()]
        if self.losses:
            events.append({"type": "losses", "rank": self._agent.identity.rank, "pid": self._agent.pid, **self._tags()})
        return passport_so_far(os.environ.get("TRAINMETER_RUN", ""), events)

    def _tags(self) -> Dict[str, Any]:
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

    __slots__ = ("_agent", "batches", "seconds", "wall_s")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.wall_s = 0.0
        self.seconds = [0.0] * len(TIME_KINDS)
        self.batches: Dict[Shape, int] = {}

    def add(self, wall_s: float, seconds: List[float], batches: Dict[Shape, int]) -> None:
        self.wall_s += wall_s
        for kind, spent in enumerate(seconds):
            self.seconds[kind] += spent
        for shape, calls in batches.items():
            self.batches[shape] = self.batches.get(shape, 0) + calls

    def event(self) -> Dict[str, Any]:
        steps = self._agent.steps - 1
        return _steps_event(self._agent, self.wall_s, dict(zip(TIME_KINDS, self.seconds)), self.batches, steps)


def _steps_event(
    agent: Agent, wall_s: float, seconds: Dict[str, float], batches: Dict[Shape, int], steps: int
) -> Dict[str, Any]:
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
