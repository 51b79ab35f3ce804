"""Carries what the agents wrote (rings and side files) into the run log, once or twice a second."""

from __future__ import annotations

import json
import math
import mmap
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainmeter_core import ring_format as layout
from trainmeter_core.series import TIME_KINDS

Emit = Callable[[dict[str, Any]], None]

# A process that ends no step for so long has paused: what it noted and did not write is carried over.
_RESTS_S = 1.0

_TIMES = ("step", "data_wait", "checkpoint", "eval", "logging")


@dataclass
class _Window:
    """Sums over the steps of one rank that one look at its ring found."""

    first: int = 0
    last: int = 0
    n: int = 0
    skipped: int = 0
    tokens: int = 0
    samples: int = 0
    micro_batches: int = 0
    unseen: int = 0
    wall_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    batches: dict[tuple[int, int, int], int] = field(default_factory=dict)
    shortest: float = math.inf
    longest: float = 0.0
    loader_seen: bool = False
    end: float = 0.0

    def add(self, record: layout.StepRecord, shapes: dict[tuple[int, int, int], int]) -> None:
        """Add one step, or the tail after the last one, which is time and nothing else."""
        if record.type == layout.STEP_RECORD:
            skipped = bool(record.flags & layout.FLAG_SKIPPED)
            if not self.n and not self.skipped:
                self.first = record.step
            self.last = record.step
            self.n += not skipped
            self.skipped += skipped
            self.shortest = min(self.shortest, record.wall_s)
            self.longest = max(self.longest, record.wall_s)
        self.tokens += record.tokens
        self.samples += record.samples
        self.micro_batches += record.micro_batches
        self.unseen += bool(record.flags & layout.FLAG_BATCH_UNSEEN)
        self.wall_s += record.wall_s
        self.end = record.end
        self.loader_seen = self.loader_seen or bool(record.flags & layout.FLAG_LOADER_SEEN)
        for kind in _TIMES:
            self.seconds[kind] = self.seconds.get(kind, 0.0) + getattr(record, kind + "_s")
        for shape, calls in shapes.items():
            self.batches[shape] = self.batches.get(shape, 0) + calls

    def add_unwritten(self, steps: Unwritten) -> None:
        """Add steps of which each one's own time is not known."""
        like, n = steps.like, steps.n
        self.first, self.last, self.n = steps.first, steps.first + n - 1, n
        self.tokens, self.samples, self.micro_batches = n * like.tokens, n * like.samples, n * like.micro_batches
        self.wall_s, self.end = steps.wall_s, steps.end
        self.loader_seen = bool(like.flags & layout.FLAG_LOADER_SEEN)
        self.seconds = dict(steps.seconds)
        self.batches = {shape: n * calls for shape, calls in _one_shape(like).items()}

    def fields(self, startup: bool) -> dict[str, Any]:
        """The log's record of this window; what no kind claims is `other`."""
        seconds: dict[str, float | None] = {"startup": self.wall_s} if startup else {**self.seconds}
        if not startup:
            seconds["other"] = max(0.0, self.wall_s - sum(self.seconds.values()))
            if not self.loader_seen:
                seconds["data_wait"] = None
        seen = not self.unseen
        return {
            "first": self.first,
            "last": self.last,
            "n": self.n,
            "skipped": self.skipped,
            "tokens": self.tokens if seen else None,
            "samples": self.samples if seen else None,
            "micro_batches": self.micro_batches if seen else None,
            **({} if seen else {"unseen": self.unseen}),
            "wall_s": self.wall_s,
            "time": seconds,
            "batches": [[*shape, calls] for shape, calls in self.batches.items()],
            "step_time_s": [self.shortest, self.longest] if self.shortest < math.inf else None,
            "startup": startup,
        }


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
        with open(path, "rb") as file:
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
        totals = self._totals()
        steps = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)[1]
        like = self._record(totals.records - 1) if totals.records else None
        if like is None or like.type != layout.STEP_RECORD or not 1 <= steps <= layout.MOST_UNWRITTEN:
            return totals
        n = int(steps)
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
        newest = self._totals().records - 1
        _, steps, end, *seconds = layout.STATE.unpack_from(self._map, layout.STATE_OFFSET)
        if newest < 0 or not 1 <= steps <= layout.MOST_UNWRITTEN:
            return None
        record = self._record(newest)
        if record is None or record.type != layout.STEP_RECORD:
            return None
        last, since, then = record.step, record.end, seconds[5:]
        if self._carried is not None and self._carried[1] > since:
            last, since, then = self._carried
        n = record.step + int(steps) - last
        spent = [upto - before for upto, before in zip(seconds[:5], then, strict=True)]
        if n < 1 or not since <= end < math.inf or not all(0.0 <= each < math.inf for each in spent):
            return None
        return Unwritten(record, last + 1, n, end, end - since, dict(zip(_TIMES, spent, strict=True)), seconds[:5])

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
                shapes = _one_shape(record)
            yield record, shapes

    def close(self) -> None:
        """Unmap."""
        self._map.close()


def _one_shape(record: layout.StepRecord) -> dict[tuple[int, int, int], int]:
    """The micro-batches of a step that were all alike."""
    if not record.micro_batches:
        return {}
    return {(record.samples // record.micro_batches, record.seq_len, record.target_len): record.micro_batches}


class Drain:
    """Reads every ring and side file of a spool and emits run-log records."""

    def __init__(self, spool: str, emit: Emit) -> None:
        self.spool = spool
        self._emit = emit
        self.rings: dict[str, RingReader] = {}
        self._sides: dict[str, int] = {}
        self._refused: set[str] = set()
        self._until: dict[tuple[int, int], tuple[float, int]] = {}
        self.is_known: Callable[[RingReader], bool] = lambda _reader: True
        """Whether a ring is to be read by now: not before it is known to which run it belongs."""
        self.on_steps: Callable[[RingReader, dict[str, Any], float], None] | None = None
        """Called with each window of steps, its fields and its end in seconds since the epoch."""

    def poll(self) -> None:
        """Carry over everything that is new."""
        try:
            names = sorted(os.listdir(self.spool))
        except FileNotFoundError:
            # Somebody emptied the temporary directory: what was mapped stays readable.
            names = []
        for name in names:
            if name.endswith(".jsonl"):
                self._poll_side(name)
            elif name.endswith(".ring") and name not in self.rings and name not in self._refused:
                self._open_ring(name)
        for reader in self.rings.values():
            if self.is_known(reader):
                self._poll_ring(reader)

    def finish(self) -> None:
        """Carry over the rest: no process writes any more. One that was killed has steps without a record."""
        self.poll()
        for reader in self.rings.values():
            self._poll_unwritten(reader)

    def positions(self) -> dict[str, int]:
        """How far each side file was read, for `resume`."""
        return dict(self._sides)

    def resume(self, sides: Mapping[str, int], until: Mapping[tuple[int, int], tuple[float, int]]) -> None:
        """Go on where another drain ended: side files from their bytes on, rings after what was logged last.

        `until` is by rank and process id: seconds since the epoch, and the step that ended then.
        """
        self._sides = dict(sides)
        self._until = dict(until)

    def _open_ring(self, name: str) -> None:
        try:
            reader = self.rings[name] = RingReader(os.path.join(self.spool, name))
            reader.skip_until(*self._until.get((reader.identity.rank, reader.identity.pid), (None,)))
        except ValueError:
            # Its writer reserves the space and fills in the header in the next microseconds; look again.
            return
        except OSError as error:
            self._refused.add(name)
            self._emit({"type": "failure", "site": "drain", "count": 1, "first": str(error)})

    def _poll_ring(self, reader: RingReader) -> None:
        lost = reader.lost
        window = _Window()
        who = {"rank": reader.identity.rank, "pid": reader.identity.pid}
        for record, shapes in reader.steps():
            startup = bool(record.flags & layout.FLAG_STARTUP)
            if startup or record.type == layout.TAIL_RECORD:
                # Blocks of their own: the steady part that rates are taken over has neither.
                self._emit_window(reader, window)
                window = _Window()
                window.add(record, shapes)
                self._emit_window(reader, window, startup=startup)
                window = _Window()
            else:
                window.add(record, shapes)
        self._emit_window(reader, window)
        found = reader.unwritten()
        if found is not None and time.monotonic() - found.end >= _RESTS_S:
            self._poll_unwritten(reader)
        if reader.lost != lost:
            self._emit({"type": "dropped", **who, "records": reader.lost - lost})

    def _poll_unwritten(self, reader: RingReader) -> None:
        found = reader.unwritten()
        if found is not None:
            reader.carried_over(found)
            window = _Window()
            window.add_unwritten(found)
            self._emit_window(reader, window)

    def _emit_window(self, reader: RingReader, window: _Window, startup: bool = False) -> None:
        if window.wall_s or window.n:
            self._emit_steps(reader, window.fields(startup), window.end)

    def _emit_steps(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        wall = reader.wall_clock(end)
        self._emit({"type": "steps", "t": wall, "rank": reader.identity.rank, "pid": reader.identity.pid, **fields})
        if self.on_steps is not None:
            self.on_steps(reader, fields, wall)

    def _poll_side(self, name: str) -> None:
        path = os.path.join(self.spool, name)
        start = self._sides.get(name, 0)
        try:
            with open(path, "rb") as file:
                file.seek(start)
                text = file.read()
        except OSError:
            # Removed under us; nothing more will come from it.
            return
        whole = text.rfind(b"\n") + 1
        self._sides[name] = start + whole
        for line in text[:whole].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                # Two processes' torn lines: the next line is whole again.
                continue
            if isinstance(event, dict):
                self._emit(event)

    def agents(self) -> int:
        """How many processes woke the agent, trainers or not."""
        try:
            return sum(name.startswith("agent-") for name in os.listdir(self.spool))
        except OSError:
            # The spool was removed from under us.
            return len(self.rings)

    def close(self) -> None:
        """Unmap the rings."""
        for reader in self.rings.values():
            reader.close()
