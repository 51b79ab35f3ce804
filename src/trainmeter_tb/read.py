"""Reads a run back from a log directory or one event file: the passport that was left there, else the series.

Streams every file once, however large; nothing is sampled. Damaged and torn records are left out and counted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

from trainmeter_core.json_text import parse
from trainmeter_core.passport import schema
from trainmeter_core.passport.restore import restore
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RankTotals, RunRecord
from trainmeter_core.run_tables import Loss
from trainmeter_core.series import PREFIX

from .events import COUNTS_TAG, PASSPORT_JSON_TAG, string_of
from .records import RecordReader
from .scalars import EventReader

if TYPE_CHECKING:
    from .scalars import Scalar

_MARK = "tfevents"
_MOST_LOSSES = 1000
_MOST_SERIES = 4096
_LARGEST_PASSPORT = 16 << 20
_KEPT = 3  # passports, should the newest be damaged
_SHOWN = 5

Runs = Dict[str, List[str]]
"""Event files by directory, in the order in which they were begun."""


def open_run(ref: str) -> RunRecord | None:
    """Give the one run that trainmeter watched in a log directory, or in a single event file.

    None when there is no event file. Raises ValueError with one line when there are several such runs, or none.
    """
    runs = find_runs(ref)
    if not runs:
        return None
    found = {directory: read_run(files) for directory, files in runs.items()}
    watched = {directory: run for directory, run in found.items() if run.ours}
    if not watched:
        raise ValueError(ref + " has event files, but none that was written under tm")
    if len(watched) > 1:
        names = sorted(os.path.relpath(directory, ref) for directory in watched)
        more = ", … (" + str(len(names)) + " runs)" if len(names) > _SHOWN else ""
        raise ValueError(ref + " holds several runs; name one: " + ", ".join(names[:_SHOWN]) + more)
    return next(iter(watched.values())).record()


def find_runs(ref: str) -> Runs:
    """Give the event files below a directory, by directory; or one file alone."""
    if os.path.isfile(ref):
        return {os.path.dirname(ref): [ref]} if _MARK in os.path.basename(ref) else {}
    runs: Runs = {}
    for directory, inner, names in os.walk(ref):
        inner.sort()
        files = sorted(name for name in names if _MARK in name)
        if files:
            runs[directory] = [os.path.join(directory, name) for name in files]
    return runs


def read_run(files: list[str]) -> FoundRun:
    """Read all event files of one run."""
    run = FoundRun()
    for path in files:
        for wall_time, step, tag, value in scalars(path, run):
            run.add(wall_time, step, tag, value)
    return run


def scalars(path: str, into: FoundRun | None = None) -> Iterator[Scalar]:
    """Give every scalar of one event file as (wall time, step, tag, value); notes what else it holds in `into`."""
    from tensorboard.compat.proto import event_pb2

    run = FoundRun() if into is None else into
    with open(path, "rb") as file:
        records = RecordReader(file)
        events = EventReader(records, event_pb2.Event, run.other)
        yield from events
        run.damaged += records.corrupt + events.unreadable
        run.torn = run.torn or records.torn


class FoundRun:
    """What the event files of one run hold, in bounded memory.

    `series` has our newest value by tag with its step; `losses` the user's scalars whose name says loss; `damaged`
    counts places that could not be read; `torn` tells that a file ends in half a record.
    """

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self.series: dict[str, tuple[int, float]] = {}
        self.losses: dict[str, Loss] = {}
        self.last_seen: float | None = None
        self.damaged = 0
        self.torn = False
        self._kinds: dict[str, str] = {}
        self._exact: tuple[int, bytes] = (-1, b"")

    def add(self, wall_time: float, step: int, tag: str, value: float) -> None:
        """Add one scalar."""
        kind = self._kinds.get(tag)
        if kind is None:
            kind = self._kind(tag)
        if kind == "ours":
            self.series[tag] = (step, value)
            self.last_seen = wall_time if self.last_seen is None else max(self.last_seen, wall_time)
        elif kind == "loss":
            loss = Loss.of(value, step)
            self.losses[tag] = self.losses[tag].then(loss) if tag in self.losses else loss

    def _kind(self, tag: str) -> str:
        if tag.startswith(PREFIX):
            kind = "ours" if len(self.series) < _MOST_SERIES else ""
        else:
            kind = "loss" if "loss" in tag.lower() and len(self.losses) < _MOST_LOSSES else ""
        if len(self._kinds) < _MOST_SERIES:
            self._kinds[tag] = kind
        return kind

    def other(self, event: Any) -> None:
        """Look at an event that is no scalar: the newest passport is kept."""
        for value in event.summary.value:
            text = string_of(value) if value.tag in (PASSPORT_JSON_TAG, COUNTS_TAG) else None
            if text is None or len(text) > _LARGEST_PASSPORT:
                continue
            if value.tag == PASSPORT_JSON_TAG:
                self._texts = [*self._texts[1 - _KEPT :], text]
            else:
                self._exact = (event.step, text)

    @property
    def ours(self) -> bool:
        """True when trainmeter wrote anything into this run."""
        return bool(self.series or self._texts)

    @property
    def passport(self) -> dict[str, Any] | None:
        """The newest passport that is one; None when there is none."""
        for text in reversed(self._texts):
            passport = _passport_in(text)
            if passport is not None:
                return passport
        return None

    def record(self) -> RunRecord:
        """Give the run: from its passport, and where that is older than the series, with the series' counts."""
        passport = self.passport
        record = RunRecord() if passport is None else restore(passport)
        steps = self._count("step")
        at = 0 if passport is None else int(passport["data"]["steps"]["value"])
        if steps is not None and steps > at:
            self._count_by_series(record, steps, at)
        if not record.losses:
            record.losses = dict(self.losses)
        record.notes.junk_lines += self.damaged
        record.notes.torn_tail = record.notes.torn_tail or self.torn
        return record

    def _count_by_series(self, record: RunRecord, steps: int, at: int) -> None:
        before = record.ranks.get(0, RankTotals())
        totals = RankTotals(processes=before.processes, startup_s=before.startup_s, steps=steps, last_step=steps)
        totals.skipped = self._count("steps_skipped") or 0
        tokens = self._count("tokens")
        totals.tokens = Absent("no such series was published") if tokens is None else tokens
        # Batches are not among the series, so that nothing may be computed from those up to the passport's step.
        totals.samples = totals.micro_batches = Absent(
            f"the passport there has {at} of {steps} steps, for it is older or that of a resumed run's last process; "
            "all of them are known by their series alone"
        )
        record.summed = totals
        record.end.seconds = Absent("no end was recorded")
        if self.last_seen is not None:
            record.last_seen = self.last_seen

    def _count(self, name: str) -> int | None:
        tag = PREFIX + name
        found: tuple[int, float] | None = self.series.get(tag)
        if found is None:
            return None
        step, text = self._exact
        exact = _object_in(text).get(tag) if step == found[0] else None
        return exact if isinstance(exact, int) else int(found[1])


def _passport_in(text: bytes) -> dict[str, Any] | None:
    """Give a passport from its JSON; None for text that is none, as from a damaged or foreign file."""
    passport = _object_in(text)
    return None if schema.problems(passport) else passport


def _object_in(text: bytes) -> dict[str, Any]:
    try:
        found = parse(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
