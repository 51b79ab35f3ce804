"""Blocks of steps as a log has them: read from a record, put together with the next one, written as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.run_record import StepBlock
from trainmeter_core.run_tables import MOST_SHAPES
from trainmeter_core.series import TIME_KINDS

from .field_types import LARGEST, MOST, as_array, as_batch, as_count, as_optional, as_seconds, as_table

if TYPE_CHECKING:
    from collections.abc import Mapping

_COUNTS = ("tokens", "samples", "micro_batches")


def step_block(fields: Mapping[str, Any]) -> StepBlock:
    """The block of a `steps` record. Raises KeyError, TypeError or ValueError for one without its fields."""
    span = fields.get("step_time_s")
    return StepBlock(
        n=as_count(fields["n"]),
        skipped=as_count(fields.get("skipped", 0)),
        first=as_optional(fields.get("first"), as_count),
        last=as_optional(fields.get("last"), as_count),
        tokens=as_optional(fields["tokens"], as_count),
        samples=as_optional(fields["samples"], as_count),
        micro_batches=as_optional(fields["micro_batches"], as_count),
        unseen=as_count(fields.get("unseen", 0)),
        wall_s=as_seconds(fields["wall_s"]),
        time_s={kind: as_optional(value, as_seconds) for kind, value in as_table(fields["time"]).items()},
        batches=[as_batch(entry) for entry in as_array(fields["batches"])],
        step_time_s=None if span is None else (as_seconds(span[0]), as_seconds(span[1])),
        startup=bool(fields.get("startup", False)),
    )


class StepSums:
    """Blocks of one process put together into one that adds up to the same.

    All have steps or none has, and the same kinds of time were seen in all: `kind_of` tells which go together.
    """

    def __init__(self, block: StepBlock) -> None:
        self._n = self._skipped = self._unseen = 0
        self._first, self._last = block.first, block.last
        self._counts: dict[str, int | None] = dict.fromkeys(_COUNTS, 0)
        self._wall_s = 0.0
        self._time_s: dict[str, float | None] = {}
        self._batches: dict[tuple[int, ...], int] = {}
        self._step_time_s = block.step_time_s
        self._add(block)

    def add(self, block: StepBlock) -> bool:
        """Add the next block; False where the two do not fit into one record, and nothing has changed then."""
        if len(self._batches) + len(block.batches) > MOST_SHAPES:
            new = {tuple(shape) for *shape, _calls in block.batches} - self._batches.keys()
            if len(self._batches) + len(new) > MOST_SHAPES:
                return False
        sums = [self._n + block.n, self._skipped + block.skipped, self._unseen + block.unseen]
        sums += [(self._counts[name] or 0) + (getattr(block, name) or 0) for name in _COUNTS]
        sums += [self._batches.get(tuple(shape), 0) + calls for *shape, calls in block.batches]
        if max(sums) >= MOST or self._wall_s + block.wall_s >= LARGEST / len(TIME_KINDS):
            return False
        self._add(block)
        return True

    def _add(self, block: StepBlock) -> None:
        self._n += block.n
        self._skipped += block.skipped
        self._unseen += block.unseen
        self._first = block.first if self._first is None else self._first
        self._last = self._last if block.last is None else block.last
        for name in _COUNTS:
            before, more = self._counts[name], getattr(block, name)
            self._counts[name] = None if before is None or more is None else before + more
        self._wall_s += block.wall_s
        told = 0.0
        for kind, seconds in block.time_s.items():
            if seconds is None:
                self._time_s[kind] = None
            else:
                self._time_s[kind] = (self._time_s.get(kind) or 0.0) + seconds
                told += seconds if kind in TIME_KINDS else 0.0
        if block.wall_s > told and block.time_s.get("other", 0.0) is not None:
            # What no kind tells is `other`, of each block for itself.
            self._time_s["other"] = (self._time_s.get("other") or 0.0) + block.wall_s - told
        for *shape, calls in block.batches:
            key = tuple(shape)
            self._batches[key] = self._batches.get(key, 0) + calls
        if block.step_time_s is not None:
            low, high = self._step_time_s or block.step_time_s
            self._step_time_s = min(low, block.step_time_s[0]), max(high, block.step_time_s[1])

    def fields(self) -> dict[str, Any]:
        """The fields of a `steps` record."""
        return {
            "first": self._first,
            "last": self._last,
            "n": self._n,
            "skipped": self._skipped,
            **self._counts,
            **({"unseen": self._unseen} if self._unseen else {}),
            "wall_s": self._wall_s,
            "time": self._time_s,
            "batches": [[*shape, calls] for shape, calls in self._batches.items()],
            "step_time_s": self._step_time_s,
            "startup": False,
        }


def kind_of(block: StepBlock) -> tuple[bool, tuple[str, ...]]:
    """Blocks of one kind go together: those with steps, and those in which the same kinds of time were not seen."""
    return bool(block.n or block.skipped), tuple(sorted(k for k, seconds in block.time_s.items() if seconds is None))
