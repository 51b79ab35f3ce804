"""Growing counters ─► what happened since the last look; pure."""

from __future__ import annotations


class Rates:
    """Remembers the last value of each counter.

    Every answer is None when there is nothing to compare with: the first look, no time gone by, or a counter that went
    backward (a driver that restarted, a wrap, a device plugged in again).
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def change(self, key: str, counter: float, now: float) -> tuple[float, float] | None:
        """The counter's growth and the seconds it took."""
        before = self._last.get(key)
        self._last[key] = (counter, now)
        if before is None:
            return None
        grown, seconds = counter - before[0], now - before[1]
        return (grown, seconds) if grown >= 0 and seconds > 0 else None

    def per_s(self, key: str, counter: float, now: float) -> float | None:
        """Growth per second."""
        change = self.change(key, counter, now)
        return change and change[0] / change[1]

    def busy_pct(self, key: str, busy_s: float, now: float) -> float | None:
        """Share of the time since the last look, for a counter of seconds; 100 at most, for clocks that differ."""
        rate = self.per_s(key, busy_s, now)
        return None if rate is None else min(100.0, 100.0 * rate)


def put(values: dict[str, float], name: str, value: float | None) -> None:
    """Add `value` under `name` if it is known."""
    if value is not None:
        values[name] = value
