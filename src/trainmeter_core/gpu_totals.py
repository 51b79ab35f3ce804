"""GPU readings over the steady part of a run: from the end of the first step to the end of the last one; bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from .run_tables import Statistics


@dataclass
class SteadyGpus:
    """Statistics by UUID and name. Readings count once a later step shows that training went on after them."""

    table: dict[str, dict[str, Statistics]] = field(default_factory=dict)
    _waiting: dict[str, dict[str, Statistics]] = field(default_factory=dict)
    _since: float | None = None

    def started(self, t: float) -> None:
        """A process ended its first step at `t` (Unix time): what came since the last step was not training."""
        self._waiting = {}
        self._since = t if self._since is None else max(self._since, t)

    def stepped(self) -> None:
        """Later steps were seen: what waited for them lies in the steady part."""
        if self._since is None:
            return
        for uuid, readings in self._waiting.items():
            known = self.table.setdefault(uuid, {})
            for name, waiting in readings.items():
                known.setdefault(name, Statistics()).include(waiting)
        self._waiting = {}

    def add(self, uuid: str, readings: Iterable[tuple[str, float]], begin: float) -> None:
        """Add one GPU's readings over an interval that began at `begin`; one with start-up in it is left out."""
        sums: dict[str, Statistics] = {}
        for name, value in readings:
            sums.setdefault(name, Statistics()).add(value)
        self.add_sums(uuid, sums, begin)

    def add_sums(self, uuid: str, sums: Mapping[str, Statistics], begin: float) -> None:
        """Add what several such intervals came to, none of which began before `begin`."""
        if self._since is None or begin < self._since:
            return
        waiting = self._waiting.setdefault(uuid, {})
        for name, each in sums.items():
            waiting.setdefault(name, Statistics()).include(each)

    def means(self) -> dict[str, dict[str, float]]:
        """The mean of every reading so far."""
        return {
            uuid: {name: each.mean for name, each in readings.items() if each.count}
            for uuid, readings in self.table.items()
        }


def throttle_shares(readings: Mapping[str, Any]) -> dict[str, Any]:
    """The entries named "throttle/<cause>", by cause."""
    return {name[len("throttle/") :]: value for name, value in readings.items() if name.startswith("throttle/")}
