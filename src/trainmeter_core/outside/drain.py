"""Carries what the agents wrote (rings and side files) into the run log, once or twice a second."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainmeter_core import ring_format as layout
from trainmeter_core.json_text import parse
from trainmeter_core.plain_files import opener

from .ring_reader import TIMES, RingReader, Unwritten, one_shape

Emit = Callable[[dict[str, Any]], None]

# A process that ends no step for so long has paused: what it noted and did not write is carried over.
_RESTS_S = 1.0


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
        for kind in TIMES:
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
        self.batches = {shape: n * calls for shape, calls in one_shape(like).items()}

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
        except OSError:
            # Somebody emptied the temporary directory, or put something in its place: what was mapped stays readable.
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

    def by_pid(self) -> list[tuple[int, RingReader]]:
        """The rings that were found, each with the number of its process."""
        return [(reader.identity.pid, reader) for reader in self.rings.values()]

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
            with open(path, "rb", opener=opener) as file:
                file.seek(start)
                text = file.read()
        except OSError:
            # Removed under us; nothing more will come from it.
            return
        whole = text.rfind(b"\n") + 1
        self._sides[name] = start + whole
        for line in text[:whole].splitlines():
            try:
                event = parse(line.lstrip(b"\0"))  # what was carried over may have been given back
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
