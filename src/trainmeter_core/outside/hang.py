"""Notices that a run stands still: no step for ten times the usual, while its GPUs spin without doing matrix work."""

from __future__ import annotations

import time
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any

from trainmeter_core.series import TIME_KINDS
from trainmeter_core.verdicts import Verdict, hang

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trainmeter_core.ladder import Counters

    from .gpu_watch import GpuWatch
    from .ring_reader import RingReader

USUAL_TIMES = 10
LEAST_S = 10.0
_KEPT = 101
_SAMPLES = 3
_WORKING_PCT = 0.5

# While one rank does this, the others rightly wait for it in a collective.
_PATIENCE_S = {"checkpoint": 600.0, "eval": 600.0}

_DOING = {
    "step": "in a training step",
    "data_wait": "waiting for data",
    "checkpoint": "saving a checkpoint",
    "eval": "evaluating",
    "logging": "in a tracker call",
    "startup": "starting up",
    "other": "between steps",
}


class HangWatch:
    """Knows how long steps take and when the last one ended; tells of a hang once."""

    def __init__(self, least_s: float = LEAST_S) -> None:
        self._least_s = least_s
        self._times: deque[float] = deque(maxlen=_KEPT)
        self._last = 0.0
        self._told = False

    def stepped(self, fields: Mapping[str, Any], end: float) -> None:
        """A window of a rank's steps was read, the last of which ended at `end`, seconds since the epoch."""
        steps = fields["n"] + fields["skipped"]
        if not steps:
            return
        self._last = max(self._last, end)
        if not fields["startup"]:
            self._times.append(fields["wall_s"] / steps)

    def look(self, gpus: GpuWatch, rings: Iterable[RingReader], now: float | None = None) -> Verdict | None:
        """The hang that is seen now, unless it was told already."""
        if self._told or not self._times:
            return None
        still = (time.time() if now is None else now) - self._last
        usual = median(self._times)
        if still < max(USUAL_TIMES * usual, self._least_s):
            return None
        doing = {ring.identity.rank: TIME_KINDS[min(ring.phase(), len(TIME_KINDS) - 1)] for ring in rings}
        if still < max((_PATIENCE_S.get(kind, 0.0) for kind in doing.values()), default=0.0):
            return None
        found = spinning(gpus.counters(since=self._last))
        if found is None:
            return None
        self._told = True
        sentence = f"No step for {still:.0f} s, usually {usual:.2g} s; {whereabouts(doing)}. {found.sentence}"
        return found._replace(sentence=sentence)


def spinning(counters: Sequence[Counters]) -> Verdict | None:
    """The hang of one of the GPUs, when none of them does any matrix work; a GPU may also be idle."""
    if any(_works(each) or each.samples < _SAMPLES for each in counters):
        return None
    return next((found for found in (hang(each, steps=0) for each in counters) if found is not None), None)


def _works(counters: Counters) -> bool:
    tensor = counters.tensor_active_pct
    return isinstance(tensor, (int, float)) and tensor >= _WORKING_PCT


def whereabouts(doing: Mapping[int, str]) -> str:
    """What every rank does, equal ones together: "ranks 0-2 in a training step, rank 3 waiting for data"."""
    by_kind: dict[str, list[int]] = {}
    for rank in sorted(doing):
        by_kind.setdefault(doing[rank], []).append(rank)
    if not by_kind:
        return "no rank can be asked"
    return ", ".join(f"{_ranks(ranks)} {_DOING[kind]}" for kind, ranks in by_kind.items())


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "ranks " + ", ".join(map(str, ranks))
