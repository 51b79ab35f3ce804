"""The run directories of one command: the first, and one more for every other training that the command starts."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .trainings import Training, Trainings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .one_run import OneRun
    from .ring_reader import RingReader

# So many trainings that have ended may be gone on with by another process; older ones are closed for good.
_MOST_AT_REST = 16
_MOST_LINES = 20
_MOST_HELD = 10000


class AllRuns:
    """Gives every record to the run it belongs to. A process that has not told who it is waits for that."""

    def __init__(self, first: OneRun, begin: Callable[[dict[str, Any]], OneRun | None]) -> None:
        """Begin with one run; `begin` makes another for the `process` record of its first process, or gives None."""
        self.first = first
        self.on_join: Callable[[dict[str, Any], OneRun], None] | None = None
        """Called with what a process told of itself, and the run it belongs to."""
        self._begin = begin
        self._trainings: Trainings[OneRun] = Trainings(first)
        self._count = 1
        self._held: dict[int, list[dict[str, Any]]] = {}
        self._hardware: list[dict[str, Any]] = []
        """The newest records of what the node has: a run that begins later needs them, too."""
        self._ends: dict[int, float] = {}
        """By id of a run's object: when it came to rest, and its passport was written."""
        self._gone: set[int] = set()
        """Of which no process was alive at the last look; what they wrote last is read before the passport."""
        self._settled = False
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._told = 0

    @property
    def alone(self) -> bool:
        """Whether there was one training only."""
        return self._count == 1

    def all(self) -> list[OneRun]:
        """Those that are open, the oldest first."""
        return [training.of for training in self._trainings.all]

    def of(self, pid: int) -> OneRun:
        """The run that a process belongs to; the first while that is not known."""
        training = self._trainings.of(pid)
        return self.first if training is None else training.of

    def id_of(self, pid: int) -> str:
        """The id of the run that a process belongs to."""
        return self.of(pid).writer.run_id

    def under_way(self) -> list[OneRun]:
        """Those of which a process goes on, the oldest first; else the one that was begun last."""
        trainings = self._trainings.all
        going_on = [each.of for each in trainings if any(alive(pid) for pid in each.pids)]
        return going_on or [trainings[-1].of]

    def knows(self, reader: RingReader) -> bool:
        """Whether a ring's process has told who it is."""
        return self._settled or self._trainings.of(reader.identity.pid) is not None

    def number_of(self, record: Mapping[str, Any]) -> int:
        """A number of the training that a record belongs to: the process's own while that is not known."""
        pid = int(record.get("pid", 0))
        training = self._trainings.of(pid)
        return pid if training is None else id(training)

    def emit(self, record: dict[str, Any]) -> None:
        """Take a record of a process, or one of no process, which is the first run's."""
        pid = record.get("pid")
        if not isinstance(pid, int):
            self.first.emit(record)
            return
        kind = record.get("type")
        if kind == "process":
            self._join(pid, record)
        training = self._trainings.of(pid)
        if training is None and self._settled:
            self.first.emit(record)
            return
        if training is None:
            held = self._held.setdefault(pid, [])
            if len(held) < _MOST_HELD:
                held.append(record)
            return
        if kind == "saved" and record.get("mark"):
            training.marks.add(str(record["mark"]))
        training.of.emit(record)

    def _join(self, pid: int, record: dict[str, Any]) -> None:
        training = self._trainings.find(record)
        if training is None:
            another = self._begin(record)
            if another is None:  # no directory can be made: better in the first one's than nowhere
                training = self._trainings.all[0]
            else:
                self._count += 1
                another.surrounded(self._hardware)
                training = self._trainings.begin(another)
        self._trainings.join(training, record)
        if self.on_join is not None:
            self.on_join(record, training.of)
        if self._ends.pop(id(training.of), None) is not None:
            training.of.awake()
        for waiting in self._held.pop(pid, ()):
            training.of.emit(waiting)

    def stepped(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        """Take a window of steps that ended then."""
        self.of(reader.identity.pid).stepped(reader, fields, end)

    def surrounded(self, records: Sequence[dict[str, Any]]) -> None:
        """Take records of the node and its GPUs: every run that goes on has them."""
        self._hardware += [record for record in records if record["type"] == "hardware"]
        for one in self.all():
            if id(one) not in self._ends:
                one.surrounded(records)

    def flush(self) -> bool:
        """Write what is new; False when the first log cannot be written any more."""
        return all(one.flush() for one in self.all())

    def keep_bounded(self) -> None:
        """Let logs that have become too long be merged."""
        for one in self.all():
            one.keep_bounded()

    def settle(self) -> None:
        """Nobody will tell any more who they are: what waits is the first run's."""
        self._settled = True
        for held in self._held.values():
            for record in held:
                self.first.emit(record)
        self._held.clear()

    def rest(self, how: Mapping[str, Any]) -> None:
        """Of several trainings, write the passports of those whose processes are all gone."""
        if self.alone:
            return
        for training in list(self._trainings.all):
            one = training.of
            if id(one) in self._ends or not training.pids:
                continue
            if any(alive(pid) for pid in training.pids):
                self._gone.discard(id(one))
                continue
            if id(one) not in self._gone:
                self._gone.add(id(one))
                continue
            self._ends[id(one)] = time.monotonic()
            one.close({**how, "seconds": one.seconds})
        at_rest = sorted((each for each in self._trainings.all if id(each.of) in self._ends), key=self._ended)
        for training in at_rest[:-_MOST_AT_REST]:
            if training.of is not self.first:
                self._say(training.of, training.of.seconds)
                self._trainings.forget(training)
                training.of.writer.close()

    def _ended(self, training: Training[OneRun]) -> float:
        return self._ends[id(training.of)]

    def close(self, how: Mapping[str, Any], seconds: float) -> None:
        """Write the end and the passport of every run that has none yet."""
        for one in self.all():
            if id(one) not in self._ends:
                one.close({**how, "seconds": seconds if one is self.first else one.seconds})

    def lines(self, seconds: float) -> list[str]:
        """A line for each run that trained, the newest ones of many."""
        for one in self.all():
            self._say(one, seconds if one is self.first else one.seconds)
        left = self._told - len(self._lines)
        more = [f"and {left} runs before these: `tm runs` lists them"] if left else []
        return [*self._lines, *more]

    def _say(self, one: OneRun, seconds: float) -> None:
        line = one.line(seconds)
        if line is not None:
            self._told += 1
            self._lines.append(line)


def alive(pid: int) -> bool:
    """Whether a process of ours goes on."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's: ours is gone
        return False
    return True
