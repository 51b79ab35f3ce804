"""Energy of one GPU since watching began, from the driver's counter or, without one, from power x time."""

from __future__ import annotations

from trainmeter_core.readings import Absent, Reading

_RESET = Absent("the energy counter was reset")


class EnergyMeter:
    """Adds up joules over the intervals between samples, through counter resets and silences of the driver.

    While a counter that has answered before is silent, intervals are estimated from power, and the counter's own figure
    replaces the estimate when it answers again. `integrated` is True once any part of the total rests on power x time;
    `missing_s` is the time for which nothing at all was known: the total leaves it out, so it is a lower bound.
    """

    def __init__(self) -> None:
        self._counted_j = 0.0
        self._estimated_j = 0.0
        self._missing_s = 0.0
        self._known = False
        self._integrated = False
        self._baseline_mj: float | None = None
        self._waiting_j = 0.0
        self._waiting_missing_s = 0.0

    @property
    def integrated(self) -> bool:
        return self._integrated or self._waiting_j > 0

    @property
    def missing_s(self) -> float:
        return self._missing_s + self._waiting_missing_s

    def add(self, counter_mj: Reading, power_w: Reading, seconds: float) -> Reading:
        """Joules of the interval of `seconds` that ends now, or why they are not known.

        counter_mj is the driver's total since it was loaded, in millijoules. Lower than before means a reset: its new
        value is the new baseline, and the interval comes from power.
        """
        if isinstance(counter_mj, Absent):
            self._estimate(power_w, seconds)
            if self._baseline_mj is None:
                self._keep_estimate()
            return counter_mj if isinstance(power_w, Absent) else power_w * seconds
        before, self._baseline_mj = self._baseline_mj, float(counter_mj)
        if before is None or counter_mj < before:
            self._estimate(power_w, seconds)
            self._keep_estimate()
            if isinstance(power_w, Absent):
                return Absent("first sample") if before is None else _RESET
            return power_w * seconds
        several = self._waiting_j > 0 or self._waiting_missing_s > 0
        self._waiting_j = self._waiting_missing_s = 0.0
        joules = (counter_mj - before) / 1000.0
        self._counted_j += joules
        self._known = self._known or seconds > 0
        return Absent("the counter covers several samples at once") if several else joules

    def total_j(self) -> Reading:
        """Joules since the first sample; Absent until anything is known."""
        if not self._known and self._waiting_j == 0:
            return Absent("neither an energy counter nor power was read yet")
        return self._counted_j + self._estimated_j + self._waiting_j

    def _estimate(self, power_w: Reading, seconds: float) -> None:
        if isinstance(power_w, Absent):
            self._waiting_missing_s += seconds
        else:
            self._waiting_j += power_w * seconds

    def _keep_estimate(self) -> None:
        """The counter will not cover what was estimated since it last answered."""
        if self._waiting_j > 0:
            self._known = self._integrated = True
        self._estimated_j += self._waiting_j
        self._missing_s += self._waiting_missing_s
        self._waiting_j = self._waiting_missing_s = 0.0
