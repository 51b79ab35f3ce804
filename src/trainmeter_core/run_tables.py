"""The bounded tables of a run record: batches by shape, a loss with its extremes, a reading's mean and range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Iterator, NamedTuple

MOST_SHAPES = 4096


@dataclass
class BatchCounts:
    """How often the model was called with each batch shape: (sequences, sequence length, target length) to calls.

    At MOST_SHAPES the entries of equal lengths are merged into one call with all their sequences: every formula is
    linear in sequences, so FLOPs stay exact. Should lengths alone exceed the bound, `left_out` counts those calls.
    `unseen_steps` counts the optimizer steps whose batches are not here because they were not seen.
    """

    calls: dict[tuple[int, int, int], int] = field(default_factory=dict)
    left_out: int = 0
    unseen_steps: int = 0
    merged: bool = False
    _at: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def add(self, sequences: int, seq_len: int, target_len: int, calls: int) -> None:
        key = (sequences * calls, seq_len, target_len) if self.merged else (sequences, seq_len, target_len)
        if self.merged:
            self._add_merged(key)
            return
        if key in self.calls or len(self.calls) < MOST_SHAPES:
            self.calls[key] = self.calls.get(key, 0) + calls
            return
        self._merge()
        self.add(sequences, seq_len, target_len, calls)

    def _merge(self) -> None:
        old, self.calls, self.merged = self.calls, {}, True
        for (sequences, seq_len, target_len), calls in old.items():
            self._add_merged((sequences * calls, seq_len, target_len))

    def _add_merged(self, key: tuple[int, int, int]) -> None:
        sequences, lengths = key[0], key[1:]
        if lengths not in self._at and len(self._at) >= MOST_SHAPES:
            self.left_out += 1
            return
        before = self._at.get(lengths, 0)
        self.calls.pop((before, lengths[0], lengths[1]), None)
        self._at[lengths] = before + sequences
        self.calls[before + sequences, lengths[0], lengths[1]] = 1

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Entries of (sequences, sequence length, target length, calls), sorted."""
        for (sequences, seq_len, target_len), calls in sorted(self.calls.items()):
            yield sequences, seq_len, target_len, calls

    def __len__(self) -> int:
        return len(self.calls)


class At(NamedTuple):
    """A value and the optimizer step it was logged at; None for a value that was not finite or a step not told."""

    value: float | None
    step: int | None


@dataclass
class Loss:
    """What a user logged under one name: the first, last and lowest value, and how many there were."""

    first: At
    last: At
    best: At
    count: int = 1

    @classmethod
    def of(cls, value: float, step: int | None) -> Loss:
        """The track of one logged value; a value that is not finite is kept as None."""
        at = At(value if math.isfinite(value) else None, step)
        return cls(at, at, at)

    def then(self, later: Loss) -> Loss:
        """This track followed by a later one of the same name, as after a restart."""
        better = self.best if _lower(self.best, later.best) else later.best
        return Loss(self.first, later.last, better, self.count + later.count)


def _lower(a: At, b: At) -> bool:
    if a.value is None:
        return False
    return b.value is None or a.value <= b.value


@dataclass
class Statistics:
    """Count, sum and extremes of a reading; values that are not finite are not counted."""

    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        if not -math.inf < value < math.inf:
            return
        self.count += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def include(self, other: Statistics) -> None:
        """Add everything that another one counted."""
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    def moved(self, by: float) -> Statistics:
        """The same values, each greater by so much."""
        return Statistics(self.count, self.total + by * self.count, self.low + by, self.high + by)

    @property
    def mean(self) -> float:
        """The arithmetic mean; raises ZeroDivisionError when nothing was counted."""
        return self.total / self.count
