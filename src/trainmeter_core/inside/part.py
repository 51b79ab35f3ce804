"""What a passport needs of a process's optimizer steps: of all of them, or of those since a tracker's run began."""

from __future__ import annotations

from math import isfinite
from time import monotonic, time
from typing import TYPE_CHECKING

from ..series import PREFIX, TIME_KINDS
from .step_sums import Sums

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Mapping

_MOST_TAGS = 200
_MOST_PLACES = 256


class Whole:
    """All steps of the process, whose sums are the agent's own; the first of them is start-up."""

    __slots__ = ("_agent", "losses", "places")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.losses: dict[str, list[Any]] = {}
        """By tag: count, then (value, step) first, last and best."""
        self.places: list[dict[str, Any]] = []

    @property
    def startup(self) -> dict[str, Any] | None:
        """The record of the first step; None before its end."""
        first = self._agent.ended.startup
        return None if first is None else self._startup_event(first, sum(first.seconds))

    def steady(self) -> tuple[Sums, float, float]:
        """Give the sums after the first step, and the seconds of the shortest and the longest step of these."""
        agent = self._agent
        now = agent.ended.sums()
        return now.since(agent.ended.startup or now), agent.ended.shortest, agent.ended.longest

    def steps_before(self) -> int:
        """Steps of the process that are not counted here."""
        return 0

    def observe(self, scalars: Mapping[str, float], step: int | None, after: int | None = None) -> bool:
        """Keep first, last and best of what looks like a loss; say whether something was kept.

        A loss that is not finite is kept as None, and is never the best. It was logged `after` so many steps of the
        process; None means now.
        """
        steps = self._agent.ended.steps if after is None else after
        if steps < self.steps_before():
            return False
        now = steps - self.steps_before() if steps else max(0, step or 0)
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
        place = {"type": "tracker", "tracker": tracker, "where": where}
        if place not in self.places and len(self.places) < _MOST_PLACES:
            self.places.append(place)

    def events(self, readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give records as the run log has them; `readings` are the GPUs' between the first step and the last."""
        startup = self.startup
        if startup is None:
            return []
        sums, shortest, longest = self.steady()
        steady = self._event(sums, startup["last"] + 1, startup["last"] + sums.steps)
        steady["step_time_s"] = [shortest, longest] if longest else None
        events = [*self.places, startup, *readings, steady]
        if self.losses:
            events.append({"type": "losses", "rank": self._agent.identity.rank, "pid": self._agent.pid, **self.tags()})
        return events

    def tags(self) -> dict[str, Any]:
        """The losses as the run log has them."""
        return {
            "tags": {
                tag: {"count": count, "first": list(first), "last": list(last), "best": list(best)}
                for tag, (count, first, last, best) in self.losses.items()
            }
        }

    def _startup_event(self, first: Sums, wall_s: float) -> dict[str, Any]:
        event = self._event(first, min(1, first.steps), first.steps)
        return {**event, "wall_s": wall_s, "time": {"startup": wall_s}, "startup": True}

    def _event(self, sums: Sums, first: int, last: int) -> dict[str, Any]:
        """A `steps` record, summed by this process itself."""
        agent, batches = self._agent, sums.batches
        return {
            "type": "steps",
            "rank": agent.identity.rank,
            "pid": agent.pid,
            "first": first,
            "last": last,
            "n": sums.steps,
            "skipped": sums.skipped,
            "tokens": None if sums.unseen else sum(b * t * calls for (b, t, _), calls in batches.items()),
            "samples": None if sums.unseen else sum(b * calls for (b, _, _), calls in batches.items()),
            "micro_batches": None if sums.unseen else sum(batches.values()),
            "unseen": sums.unseen,
            "wall_s": sums.end,
            "time": by_kind(agent, sums.seconds, None),
            "batches": [[*shape, calls] for shape, calls in batches.items()],
            "startup": False,
        }


class Part(Whole):
    """The steps since this object was made.

    The first of them is start-up, which begins with the part itself: what the process did before is none of it. Losses
    and steps count from there as well.
    """

    __slots__ = ("__weakref__", "_began", "_longest", "_shortest", "_startup", "_steps", "_sums", "started")

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._began = monotonic()
        self.started = time()
        """Seconds since the epoch."""
        self._steps = agent.ended.steps
        self._startup: dict[str, Any] | None = None
        self._sums = Sums(0, 0, 0.0, [0.0] * len(TIME_KINDS), {})
        self._shortest = float("inf")
        self._longest = 0.0

    @property
    def startup(self) -> dict[str, Any] | None:
        """The record of the first step; None before its end."""
        return self._startup

    def step(self, now: float, step: Sums) -> None:
        """Add a step that ended at `now`."""
        if self._startup is None:
            self._startup = self._startup_event(step, max(0.0, now - self._began))
            return
        self._sums = self._sums.and_then(step)
        self._shortest = min(self._shortest, step.end)
        self._longest = max(self._longest, step.end)

    def steady(self) -> tuple[Sums, float, float]:
        """Give the sums after the first step, and the seconds of the shortest and the longest step of these."""
        return self._sums, self._shortest, self._longest

    def steps_before(self) -> int:
        """Steps of the process that are not counted here."""
        return self._steps

    def events(self, readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As of the whole; of the readings, which are sums over the process, only what the devices are."""
        events = super().events([each for each in readings if each["type"] != "gpu"])
        if events:
            said = {"type": "verdict", "code": "part-of-a-process", "level": "info", "sentence": self._said(readings)}
            events.append(said)
        return events

    def _said(self, readings: list[dict[str, Any]]) -> str:
        said = (
            f"one of several runs of its process, which had made {self._steps} steps before; "
            "everything here counts from the start of this run"
        )
        if any(each["type"] == "gpu" for each in readings):
            said += ", and the GPU counters, which are summed over the process, are in the passport that tm writes"
        return said


def by_kind(agent: Agent, seconds: list[float], unseen: Any = ()) -> dict[str, Any]:
    """Seconds by kind; without a data loader that was seen, `data_wait` is left out, or `unseen` where that is None."""
    table: dict[str, Any] = dict(zip(TIME_KINDS, seconds))
    if not agent.step.loader_flag:
        del table["data_wait"]
        if unseen is None:
            table["data_wait"] = None
    return table
