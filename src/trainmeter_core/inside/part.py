"""Sums over the optimizer steps of a process from a moment on: of all of it, or since a tracker's run began."""

from __future__ import annotations

from math import isfinite
from time import monotonic, time
from typing import TYPE_CHECKING

from ..series import PREFIX, TIME_KINDS

if TYPE_CHECKING:
    from .agent import Agent
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any, Mapping

_MOST_TAGS = 200
_MOST_PLACES = 256


class Part:
    """What the passport needs of the steps since this object was made.

    The first of them is start-up, which for a later part begins with the part itself: what the process did before is
    none of it. Losses and steps count from there as well.
    """

    __slots__ = (
        "__weakref__", "_agent", "_batches", "_began", "_longest", "_seconds", "_shortest", "_skipped",
        "_steps", "_wall_s", "losses", "places", "started", "startup",
    )  # fmt: skip

    def __init__(self, agent: Agent, whole_process: bool = False) -> None:
        self._agent = agent
        self._began = None if whole_process else monotonic()
        self.started = None if whole_process else time()
        """Seconds since the epoch; None for the whole process, whose start the run directory tells."""
        self._steps = 0 if whole_process else agent.steps
        self._skipped = 0 if whole_process else agent.skipped
        self.startup: dict[str, Any] | None = None
        self._wall_s = 0.0
        self._shortest = float("inf")
        self._longest = 0.0
        self._seconds = [0.0] * len(TIME_KINDS)
        self._batches: dict[Shape, int] = {}
        self.losses: dict[str, list[Any]] = {}
        """By tag: count, then (value, step) first, last and best."""
        self.places: list[dict[str, Any]] = []

    def step(self, now: float, wall_s: float, seconds: list[float], batches: dict[Shape, int]) -> None:
        """Add a step that ended at `now`."""
        if self.startup is None:
            wall_s = wall_s if self._began is None else max(0.0, now - self._began)
            self.startup = self._event(wall_s, {"startup": wall_s}, batches)
            return
        self._wall_s += wall_s
        self._shortest = min(self._shortest, wall_s)
        self._longest = max(self._longest, wall_s)
        for kind, spent in enumerate(seconds):
            self._seconds[kind] += spent
        for shape, calls in batches.items():
            self._batches[shape] = self._batches.get(shape, 0) + calls

    def observe(self, scalars: Mapping[str, float], step: int | None) -> bool:
        """Keep first, last and best of what looks like a loss; say whether something was kept.

        A loss that is not finite is kept as None, and is never the best.
        """
        steps = self._agent.steps
        now = steps - self._steps if steps else max(0, step or 0)
        kept_one = False
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
            kept_one = True
        return kept_one

    def published(self, tracker: str, where: dict[str, str]) -> None:
        """A run in a tracker shows this part."""
        if len(self.places) < _MOST_PLACES:
            self.places.append({"type": "tracker", "tracker": tracker, "where": where})

    def events(self, readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give records as the run log has them; `readings` are those of the GPUs between the first step and the last.

        Readings are sums over the process: a later part has only what the devices are.
        """
        startup = self.startup
        if startup is None:
            return []
        events = [*self.places, startup]
        events += readings if self._began is None else [each for each in readings if each["type"] != "gpu"]
        events.append(self._steady(startup))
        if self.losses:
            events.append({"type": "losses", "rank": self._agent.identity.rank, "pid": self._agent.pid, **self.tags()})
        if self._began is not None:
            events.append(
                {"type": "verdict", "code": "part-of-a-process", "level": "info", "sentence": self._said(readings)}
            )
        return events

    def tags(self) -> dict[str, Any]:
        """The losses as the run log has them."""
        return {
            "tags": {
                tag: {"count": count, "first": list(first), "last": list(last), "best": list(best)}
                for tag, (count, first, last, best) in self.losses.items()
            }
        }

    def _said(self, readings: list[dict[str, Any]]) -> str:
        said = (
            f"one of several runs of its process, which had made {self._steps} steps before; "
            "everything here counts from the start of this run"
        )
        if any(each["type"] == "gpu" for each in readings):
            said += ", and the GPU counters, which are summed over the process, are in the passport that tm writes"
        return said

    def _steady(self, startup: dict[str, Any]) -> dict[str, Any]:
        event = self._event(self._wall_s, by_kind(self._agent, self._seconds, None), self._batches)
        event["n"] -= startup["n"]
        event["skipped"] -= startup["skipped"]
        event["first"] = startup["last"] + 1
        event["step_time_s"] = [self._shortest, self._longest] if self._longest else None
        return event

    def _event(self, wall_s: float, seconds: dict[str, Any], batches: dict[Shape, int]) -> dict[str, Any]:
        """A `steps` record up to now, summed by this process itself."""
        agent = self._agent
        made = agent.steps - self._steps
        return {
            "type": "steps",
            "rank": agent.identity.rank,
            "pid": agent.pid,
            "first": min(1, made),
            "last": made,
            "n": made,
            "skipped": agent.skipped - self._skipped,
            "tokens": sum(b * t * calls for (b, t, _), calls in batches.items()),
            "samples": sum(b * calls for (b, _, _), calls in batches.items()),
            "micro_batches": sum(batches.values()),
            "wall_s": wall_s,
            "time": seconds,
            "batches": [[*shape, calls] for shape, calls in batches.items()],
            "startup": seconds.keys() == {"startup"},
        }


def by_kind(agent: Agent, seconds: list[float], unseen: Any = ()) -> dict[str, Any]:
    """Seconds by kind; without a data loader that was seen, `data_wait` is left out, or `unseen` where that is None."""
    table: dict[str, Any] = dict(zip(TIME_KINDS, seconds))
    if not agent.loader_flag:
        del table["data_wait"]
        if unseen is None:
            table["data_wait"] = None
    return table
