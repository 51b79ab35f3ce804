"""How long the steps that are left will take, and how sure that is; pure."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

_WINDOWS = 64
_FEWEST = 5
_DEVIATIONS = 2.0


class TimeLeft(NamedTuple):
    """Seconds to the end of a budget; `plus_minus_s` is None while too few windows were seen to say."""

    seconds: float
    plus_minus_s: float | None


class Pace:
    """The last windows of whole steps; time left is taken from their mean, its uncertainty from their spread."""

    def __init__(self) -> None:
        self._windows: deque[tuple[int, float]] = deque(maxlen=_WINDOWS)

    def add(self, steps: int, seconds: float) -> None:
        """Add a window of whole steps; pauses between steps (a checkpoint, an evaluation) are part of it."""
        self._windows.append((steps, seconds))

    def left(self, steps: float) -> TimeLeft | None:
        """The time for so many more steps; None before the first window.

        Each window's deviation from the mean pace, per root of a step, gives the variance of one step. Two standard
        deviations of the sum of the steps left, and of the mean it is taken from, are the uncertainty:
        2 s sqrt(left + left²/seen). Windows are taken as independent, so a slow drift is not in it.
        """
        seen = sum(n for n, _ in self._windows)
        if not seen:
            return None
        mean = sum(seconds for _, seconds in self._windows) / seen
        count = len(self._windows)
        if count < _FEWEST:
            return TimeLeft(steps * mean, None)
        variance = sum((seconds - n * mean) ** 2 / n for n, seconds in self._windows) / (count - 1)
        return TimeLeft(steps * mean, _DEVIATIONS * math.sqrt(variance * (steps + steps * steps / seen)))
