"""Tells each process of a run what the run's earlier processes came to: a tracker's series go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .all_runs import alive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .one_run import OneRun
    from .ring_reader import RingReader
    from .spool import Spool

# The model is described a moment after the process told who it is; so many looks later it will not be. What a process
# did that was killed is read a second after its last step.
_LOOKS_FOR_A_MODEL = 3
_LOOKS_FOR_STEPS = 6


@dataclass
class _Asks:
    one: OneRun
    rank: int
    looks: int = 0


class SumsBefore:
    """Answers each process once, as soon as all that ended before it is read."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._asking: dict[int, _Asks] = {}

    def begins(self, one: OneRun) -> None:
        """A run begins; one that is gone on with has sums that its first process need not wait for."""
        known = one.live.before_this_part()
        if known:
            self._spool.tell_before({"sums": known, "lost": one.live.lost})

    def joined(self, told: Mapping[str, Any], one: OneRun) -> None:
        """A process of a run told who it is."""
        self._asking[int(told["pid"])] = _Asks(one, int(told["rank"]))

    def look(self, rings: Iterable[RingReader]) -> None:
        """Answer those for whom everything is read."""
        if not self._asking:
            return
        unread = any(ring.unwritten() is not None and is_gone(ring.identity.pid) for ring in rings)
        for pid, asks in list(self._asking.items()):
            asks.looks += 1
            live = asks.one.live
            model_comes = live.description is None and asks.looks < _LOOKS_FOR_A_MODEL
            if model_comes or (unread and asks.looks < _LOOKS_FOR_STEPS):
                continue
            del self._asking[pid]
            self._spool.tell_before({"sums": live.before(asks.rank, pid, is_gone), "lost": live.lost}, pid)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also one for which nobody has waited yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        # Gone, or a system without /proc.
        return not alive(pid)
