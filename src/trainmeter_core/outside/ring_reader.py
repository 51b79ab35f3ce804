"""Reads the ring of one process as it grows, and the steps that ended and have no record in it yet."""

from __future__ import annotations

import math
import mmap
import os
from typing import TYPE_CHECKING, NamedTuple

from trainmeter_core import ring_format as layout
from trainmeter_core.plain_files import opener
from trainmeter_core.series import TIME_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES = ("step", "data_wait", "checkpoint", "eval", "logging")


class Unwritten(NamedTuple):
    """Steps that ended and have no record: what each is like, when the last ended, what the time of all went to."""

    like: layout.StepRecord
    first: int
    n: int
    end: float
    wall_s: float
    seconds: dict[str, float]
    clock: list[float]
    """Seconds by kind since the start of the process."""


class RingReader:
    """Reads one ring as it grows. A rank that outran its reader is noticed, and its totals stay true."""

    def __init__(self, path: str) -> None:
        """Map the ring; raises ValueError when the file is not one (yet)."""
        with open(path, "rb", opener=opener) as file:
            if os.fstat(file.fileno()).st_size < layout.RING_BYTES:
                raise ValueError("not a whole ring: " + path)
            self._map = mmap.mmap(file.fileno(), layout.RING_BYTES, access=mmap.ACCESS_READ)
        magic, size, _, *rest = layout.IDENTITY.unpack_from(self._map, 0)
        if magic != layout.MAGIC or size != layout.RECORD_SIZE:
            raise ValueError("not a ring of this version: " + path)
        self.identity = layout.Identity(*rest)
        self.position = 0
        self.lost = 0
        self._shapes: dict[tuple[int, int, int], int] = {}
        self._until: float | None = None
        self._carried: tuple[int, float, list[float]] | None = None
        """The last step that was carried over without its record, its end, and the clock's seconds by kind then."""

    def skip_until(self, until: float | None, step: int = 0) -> None:
        """Leave out what ended by then, seconds since the epoch, `step` the last of it: another reader has had it."""
        self._until = until
        if until is None:
            return
        totals = self._totals()
        self.position = max(0, totals.records - layout.CAPACITY)
        newest = self._record(totals.records - 1) if totals.records else None
        if newest is None or self.wall_clock(newest.end) >= until:
            return
        # The other reader had steps without a record as well. What their time went to is not known apart from that of
        # those after them: it is taken to have been spent evenly.
        _, _, end, *seconds = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)
        had = until - self.wall_clock(0.0)
        part = min(1.0, (had - newest.end) / (end - newest.end)) if end > newest.end else 1.0
        then = [before + part * (upto - before) for upto, before in zip(seconds[:5], seconds[5:], strict=True)]
        self._carried = step, min(had, end), then

    def totals(self) -> layout.Totals:
        """Sums since the start of the process, steps without a record among them."""
        totals, like = self._totals(), self._newest()
        n = 0 if like is None else self._unwritten_since(like)
        if like is None or not n:
            return totals
        return totals._replace(
            steps=totals.steps + n, tokens=totals.tokens + n * like.tokens, samples=totals.samples + n * like.samples
        )

    def _totals(self) -> layout.Totals:
        """What the header says; read until two readings agree."""
        last = layout.TOTALS.unpack_from(self._map, layout.TOTALS_OFFSET)
        for _ in range(3):
            again = layout.TOTALS.unpack_from(self._map, layout.TOTALS_OFFSET)
            if again == last:
                break
            last = again
        return layout.Totals(*last)

    def phase(self) -> int:
        """What the process does now: an index into series.TIME_KINDS."""
        kind: float = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)[0]
        return int(kind) if 0 <= kind < len(TIME_KINDS) else TIME_KINDS.index("other")

    def unwritten(self) -> Unwritten | None:
        """The steps that ended, have no record yet and were not carried over."""
        like = self._newest()
        if like is None:
            return None
        _, _, end, *seconds = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)
        last, since, then = like.step, like.end, seconds[5:]
        if self._carried is not None and self._carried[1] > since:
            last, since, then = self._carried
        n = self._unwritten_since(like) + like.step - last
        spent = [upto - before for upto, before in zip(seconds[:5], then, strict=True)]
        if n < 1 or not since <= end < math.inf or not all(0.0 <= each < math.inf for each in spent):
            return None
        return Unwritten(like, last + 1, n, end, end - since, dict(zip(TIMES, spent, strict=True)), seconds[:5])

    def _newest(self) -> layout.StepRecord | None:
        """The last record, where it is a step's."""
        records = self._totals().records
        record = self._record(records - 1) if records else None
        return record if record is not None and record.type == layout.STEP_RECORD else None

    def _unwritten_since(self, like: layout.StepRecord) -> int:
        """How many usual steps ended after this one."""
        ended: float = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)[1]
        return int(ended) - like.step if 1 <= ended - like.step <= layout.MOST_UNWRITTEN else 0

    def carried_over(self, steps: Unwritten) -> None:
        """These are known: their records, once they are written, are not to be read again."""
        self._carried = steps.first + steps.n - 1, steps.end, steps.clock

    def _record(self, position: int) -> layout.StepRecord | None:
        """The record at a position of the stream; None when it is not there any more, or was not finished."""
        offset = layout.HEADER_SIZE + position % layout.CAPACITY * layout.RECORD_SIZE
        *fields, check = layout.RECORD.unpack_from(self._map, offset)
        if check != layout.check_word(position) or fields[0] not in {layout.STEP_RECORD, layout.TAIL_RECORD}:
            return None
        return layout.StepRecord(*fields)

    def wall_clock(self, monotonic: float) -> float:
        """Translate the node's monotonic clock to seconds since the epoch."""
        return self.identity.wall_clock + (monotonic - self.identity.monotonic)

    def steps(self) -> Iterator[tuple[layout.StepRecord, dict[tuple[int, int, int], int]]]:
        """Yield the records written since the last call, each with its micro-batches by shape."""
        head = self._totals().records
        if head - self.position > layout.CAPACITY:
            self.lost += head - layout.CAPACITY - self.position
            self.position = head - layout.CAPACITY
            self._shapes = {}
        while self.position < head:
            offset = layout.HEADER_SIZE + self.position % layout.CAPACITY * layout.RECORD_SIZE
            position = self.position
            self.position += 1
            kind = self._map[offset]
            if kind == layout.SHAPES_RECORD:
                _, entries, _, _, *flat, _, check = layout.SHAPES.unpack_from(self._map, offset)
                if check != layout.check_word(position):
                    self.lost += 1
                    continue
                for start in range(0, 4 * entries, 4):
                    sequences, length, target, calls = flat[start : start + 4]
                    self._shapes[(sequences, length, target)] = calls
                continue
            record = self._record(position)
            if record is None:
                self.lost += 1
                continue
            shapes = self._shapes
            self._shapes = {}
            # By its end: a skipped step has the number of the one before.
            if self._carried is not None and record.end <= self._carried[1]:
                continue
            if self._until is not None and self.wall_clock(record.end) <= self._until:
                continue
            if not record.flags & layout.FLAG_MIXED_SHAPES:
                shapes = one_shape(record)
            yield record, shapes

    def close(self) -> None:
        """Unmap."""
        self._map.close()


def one_shape(record: layout.StepRecord) -> dict[tuple[int, int, int], int]:
    """The micro-batches of a step that were all alike."""
    if not record.micro_batches:
        return {}
    return {(record.samples // record.micro_batches, record.seq_len, record.target_len): record.micro_batches}
