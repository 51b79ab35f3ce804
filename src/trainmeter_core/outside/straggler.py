"""Names the rank that the others wait for: the one that spends clearly more time outside of its training steps."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from trainmeter_core.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What a rank does on its own while the others wait at the next collective; saving and evaluating are one rank's duty.
_OWN = {"data_wait": "waiting for data", "logging": "in tracker calls", "other": "between its steps"}
_LEAST_PCT = 5.0
_LEAST_STEPS = 10


class RankTimes:
    """Seconds of each rank by kind after its start-up."""

    def __init__(self) -> None:
        self._seconds: dict[int, dict[str, float]] = {}
        self._wall: dict[int, float] = {}
        self._steps: dict[int, int] = {}

    def stepped(self, rank: int, fields: Mapping[str, Any]) -> None:
        """Add a window of a rank's steps, as the drain read it."""
        if fields["startup"]:
            return
        seconds = self._seconds.setdefault(rank, dict.fromkeys(_OWN, 0.0))
        for kind in _OWN:
            seconds[kind] += fields["time"].get(kind) or 0.0
        self._wall[rank] = self._wall.get(rank, 0.0) + fields["wall_s"]
        self._steps[rank] = self._steps.get(rank, 0) + fields["n"]

    def verdict(self) -> Verdict | None:
        """The straggler, or None where the ranks are alike, are alone, or have hardly begun."""
        shares = {
            rank: {kind: 100 * spent / self._wall[rank] for kind, spent in seconds.items()}
            for rank, seconds in self._seconds.items()
            if self._steps[rank] >= _LEAST_STEPS and self._wall[rank] > 0
        }
        if len(shares) < 2:  # noqa: PLR2004 - somebody must wait for somebody
            return None
        worst = max(shares, key=lambda rank: sum(shares[rank].values()))
        others = [share for rank, share in shares.items() if rank != worst]
        kind = max(_OWN, key=lambda name: shares[worst][name] - median(share[name] for share in others))
        own, usual = shares[worst][kind], median(share[kind] for share in others)
        if own - usual < _LEAST_PCT:
            return None
        return Verdict(
            "straggler",
            "warning",
            f"rank {worst} spends {own:.0f} % of its time {_OWN[kind]}, the others {usual:.0f} %: "
            "every step waits for it",
        )
