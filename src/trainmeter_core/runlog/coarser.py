"""Merges a log's records into windows of so many seconds: fewer lines that add up to the same. Lines in, lines out.

Steps, node and GPU readings and spans are merged. Of losses, which each record tells anew, the newest stays; of saves
as many as a reader keeps. Everything else stays as it is, and so do its place and the order in which processes came.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Dict

from trainmeter_core.restarts import MOST_SAVES
from trainmeter_core.run_record import flat
from trainmeter_core.run_tables import Statistics

from .apply import MOST_TAGS
from .blocks import StepSums, kind_of, step_block
from .field_types import (
    MOST,
    as_count,
    as_number,
    as_positive,
    as_seconds,
    as_sums,
    as_table,
    as_table_of_sums,
    as_text,
    as_track,
)
from .read import parse_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Record = Dict[str, Any]
# They change what comes after them, so that nothing is merged across one.
_CUTS = frozenset({"process", "hardware", "resumed", "exit"})
_MOST_SAID = 256
_JUNK = b"null\n"


class Coarser:
    """Takes the lines of a log in order, and gives those of a coarser one. `close` gives the last ones."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._lines = self._given = 0
        self._newest: float | None = None
        self._window: float | None = None
        self._node_drives = False
        self._met: set[tuple[int, int]] = set()
        self._since: float | None = None
        self._said: set[tuple[Any, ...]] = set()
        self._repeated: Record | None = None
        self._merged: list[tuple[int, float, Record]] = []
        self._steps: dict[tuple[Any, ...], tuple[float, StepSums]] = {}
        self._stepped = False
        self._node: dict[str, Statistics] = {}
        self._node_t = 0.0
        self._gpus = {True: _Gpus(), False: _Gpus()}
        self._waiting = {True: _Gpus(), False: _Gpus()}
        self._spans: dict[tuple[int, str], tuple[float, Statistics]] = {}
        self._losses: dict[tuple[int, Any], Record] = {}
        self._saved: dict[tuple[int, int], deque[Record]] = {}
        self._dropped: dict[int, Record] = {}
        self._takers: dict[str, Callable[[Record, float], bool]] = {
            "steps": self._take_steps,
            "node": self._take_node,
            "node_sums": self._take_node_sums,
            "gpu": self._take_gpu,
            "gpu_sums": self._take_gpu_sums,
            "span": self._take_span,
            "span_sums": self._take_span_sums,
            "losses": self._take_losses,
            "saved": self._take_saved,
            "dropped": self._take_dropped,
            "verdict": self._take_verdict,
            "merged": self._take_merged,
        }

    def take(self, line: bytes | None) -> Iterator[Record | bytes]:
        """Give what can be written by now: records, and lines as they were. None is a line too long to hold."""
        self._lines += 1
        for given in self._take(line):
            self._given += 1
            yield given

    def close(self) -> Iterator[Record]:
        """The rest, and the record that says what was done."""
        rest = list(self._cut())
        yield from rest
        fewer = self._lines - self._given - len(rest)
        newest = {} if self._newest is None else {"t": self._newest}
        yield {"type": "merged", **newest, "every_s": self._every_s, "lines": fewer}

    def _take(self, line: bytes | None) -> Iterator[Record | bytes]:
        try:
            record = parse_line(line or b"")
            kind = as_text(record["type"])
            t = as_number(record["t"] if kind != "merged" else record.get("t", 0.0))
        except (ValueError, TypeError, LookupError):  # counted as junk by a reader, or of another version
            yield line or _JUNK
            return
        if self._cuts(kind, record, t):
            yield from self._cut()
        else:
            yield from self._move_to(kind, t)
        taker = self._takers.get(kind)
        try:
            taken = taker is not None and taker(record, t)
        except (ValueError, TypeError, LookupError):  # as above
            taken = False
        if not taken:
            yield line or _JUNK
        elif "t" in record:
            self._newest = t if self._newest is None else max(self._newest, t)

    # --- when something is written ------------------------------------------------------------------------------

    def _cuts(self, kind: str, record: Record, t: float) -> bool:
        """Whether all that was taken must be written before this record, for a reader to come to the same."""
        if kind == "resumed":
            self._met.clear()
        began = kind == "steps" and bool(record.get("startup"))
        if began:
            self._since = t if self._since is None else max(self._since, t)
        if kind in ("process", "steps", "saved"):
            process = record.get("rank"), record.get("pid")
            if type(process[0]) is int and type(process[1]) is int and process not in self._met:
                self._met.add(process)  # type: ignore[arg-type]
                return True
        return began or kind in _CUTS

    def _move_to(self, kind: str, t: float) -> Iterator[Record]:
        """Close the window where the time has come. The node's samples tell it: their clock is that of `tm` itself."""
        if kind in ("node", "node_sums"):
            self._node_drives = True
        elif self._node_drives:
            return
        window = t // self._every_s
        if self._window is not None and (window > self._window or window < self._window - 1):
            yield from self._close_window()
            self._window = None
        if self._window is None:
            self._window = window

    def _close_window(self) -> Iterator[Record]:
        """Readings come before the steps that show that training went on; the lowest rank's steps are last."""
        for gpus in (self._gpus if self._stepped else self._waiting).values():
            yield from gpus.records()
        if self._node:
            yield {"type": "node_sums", "t": self._node_t, "readings": _table(self._node)}
        for (rank, kind), (t, sums) in self._spans.items():
            yield {"type": "span_sums", "t": t, "rank": rank, "kind": kind, "sums": _row(sums)}
        for key, (t, steps) in self._steps.items():
            self._merged.append((key[0], t, _steps_record(key, t, steps)))
        for _rank, _t, record in sorted(self._merged, key=lambda each: (-each[0], each[1])):
            yield record
        self._merged, self._steps, self._node, self._spans, self._stepped = [], {}, {}, {}, False

    def _cut(self) -> Iterator[Record]:
        yield from self._close_window()
        for gpus in self._waiting.values():
            yield from gpus.records()
        for saves in self._saved.values():
            yield from saves
        yield from self._losses.values()
        if self._repeated is not None:
            yield self._repeated
        yield from self._dropped.values()
        self._saved, self._losses, self._dropped, self._repeated = {}, {}, {}, None
        self._window, self._node_drives = None, False

    # --- one kind of record each: False for one that stays as it is ----------------------------------------------

    def _take_steps(self, record: Record, t: float) -> bool:
        rank, pid, block = as_count(record["rank"]), as_count(record["pid"]), step_block(record)
        if block.startup:
            return False
        if block.n or block.skipped:
            self._stepped = True
            for flag, gpus in self._waiting.items():
                self._gpus[flag].include(gpus)
        key = (rank, pid, kind_of(block))
        known = self._steps.get(key)
        if known is None:
            self._steps[key] = t, StepSums(block)
        elif known[1].add(block):
            self._steps[key] = max(known[0], t), known[1]
        else:
            self._merged.append((rank, known[0], _steps_record(key, *known)))
            self._steps[key] = t, StepSums(block)
        return True

    def _take_node(self, record: Record, t: float) -> bool:
        return self._add_node(dict(_single(as_table(record["readings"]))), t)

    def _take_node_sums(self, record: Record, t: float) -> bool:
        return self._add_node(as_table_of_sums(record["readings"]), t)

    def _add_node(self, sums: Mapping[str, Statistics], t: float) -> bool:
        self._node_t = max(self._node_t, t) if self._node else t
        for name, each in sums.items():
            self._node.setdefault(name, Statistics()).include(each)
        return bool(sums)

    def _take_gpu(self, record: Record, t: float) -> bool:
        gpus = {uuid: dict(_single(as_table(readings))) for uuid, readings in as_table(record["gpus"]).items()}
        return self._add_gpus(gpus, t, as_seconds(record.get("seconds", 0.0)))

    def _take_gpu_sums(self, record: Record, t: float) -> bool:
        gpus = {uuid: as_table_of_sums(readings) for uuid, readings in as_table(record["gpus"]).items()}
        return self._add_gpus(gpus, t, as_seconds(record["seconds"]))

    def _add_gpus(self, gpus: dict[str, dict[str, Statistics]], t: float, seconds: float) -> bool:
        steady = self._since is not None and t - seconds >= self._since
        self._waiting[steady].include(_Gpus(gpus, t - seconds, t))
        return bool(gpus)

    def _take_span(self, record: Record, t: float) -> bool:
        sums = Statistics()
        sums.add(as_seconds(record["seconds"]))
        return self._add_span(record, t, sums)

    def _take_span_sums(self, record: Record, t: float) -> bool:
        return self._add_span(record, t, as_sums(record["sums"]))

    def _add_span(self, record: Record, t: float, sums: Statistics) -> bool:
        key = as_count(record["rank"]), as_text(record["kind"])
        known = self._spans.get(key, (t, Statistics()))
        sums.include(known[1])
        self._spans[key] = max(known[0], t), sums
        return True

    def _take_losses(self, record: Record, t: float) -> bool:
        key, tags = (as_count(record["rank"]), record.get("pid")), as_table(record["tags"])
        for track in tags.values():
            as_track(track)
        before = self._losses.get(key, {"t": t, "tags": {}})
        known = before["tags"]
        known.update({tag: track for tag, track in tags.items() if tag in known or len(known) < MOST_TAGS})
        self._losses[key] = {**record, "t": max(t, before["t"]), "tags": known}
        return True

    def _take_saved(self, record: Record, _t: float) -> bool:
        key = as_count(record["rank"]), as_count(record["pid"])
        as_text(record["mark"]), as_count(record["step"])
        self._saved.setdefault(key, deque(maxlen=MOST_SAVES)).append(record)
        return True

    def _take_dropped(self, record: Record, t: float) -> bool:
        if "kind" in record:
            return False
        rank, records = as_count(record["rank"]), as_count(record["records"])
        before = self._dropped.get(rank, {"t": t, "records": 0})
        records += before["records"]
        if records >= MOST:
            return False
        self._dropped[rank] = {**record, "t": max(t, before["t"]), "records": records}
        return True

    def _take_verdict(self, record: Record, _t: float) -> bool:
        """True for one that was said before: of these the newest stays."""
        said = as_text(record["code"]), as_text(record["level"]), as_text(record["sentence"])
        if said in self._said:
            self._repeated = record
            return True
        if len(self._said) < _MOST_SAID:
            self._said.add(said)
        return False

    def _take_merged(self, record: Record, _t: float) -> bool:
        as_positive(record["every_s"])
        self._lines += as_count(record["lines"]) - 1
        return True


class _Gpus:
    """Readings of several GPUs over intervals of which the first began at `begin` and the last ended at `t`."""

    def __init__(
        self, tables: dict[str, dict[str, Statistics]] | None = None, begin: float = 0.0, t: float = 0.0
    ) -> None:
        self.tables = tables or {}
        self.begin, self.t = begin, t

    def include(self, other: _Gpus) -> None:
        """Take everything over from another, which is empty then."""
        if not other.tables:
            return
        self.begin = min(self.begin, other.begin) if self.tables else other.begin
        self.t = max(self.t, other.t) if self.tables else other.t
        for uuid, readings in other.tables.items():
            table = self.tables.setdefault(uuid, {})
            for name, sums in readings.items():
                table.setdefault(name, Statistics()).include(sums)
        other.tables = {}

    def records(self) -> Iterator[Record]:
        """The record of all, where there is any; empty afterwards."""
        if self.tables:
            gpus = {uuid: _table(readings) for uuid, readings in self.tables.items()}
            yield {"type": "gpu_sums", "t": self.t, "seconds": self.t - self.begin, "gpus": gpus}
            self.tables = {}


def _steps_record(key: tuple[Any, ...], t: float, steps: StepSums) -> Record:
    return {"type": "steps", "t": t, "rank": key[0], "pid": key[1], **steps.fields()}


def _single(readings: Mapping[str, Any]) -> Iterator[tuple[str, Statistics]]:
    for name, value in flat(readings):
        yield name, Statistics(1, value, value, value)


def _table(readings: Mapping[str, Statistics]) -> dict[str, list[float]]:
    return {name: _row(sums) for name, sums in readings.items()}


def _row(sums: Statistics) -> list[float]:
    return [sums.count, sums.total, sums.low, sums.high]
