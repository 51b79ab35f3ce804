"""One run directory while its training goes on: its log, its live numbers, its passport and its line at the end."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.meter import Budget, parse_budget
from trainmeter_core.runlog.bound import LogBound
from trainmeter_core.runlog.format import PASSPORT_FILE, PASSPORT_MARKDOWN_FILE

from .live import LiveRun
from .local_files import LocalFiles
from .straggler import RankTimes
from .summary import blocking_calls, summary_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainmeter_core.plugins import FoundPlugin
    from trainmeter_core.runlog.read import RunReader
    from trainmeter_core.runlog.write import RunWriter

    from .options import RunOptions
    from .ring_reader import RingReader


class OneRun:
    """What `tm` keeps of one training; another training of the same command has another."""

    def __init__(
        self,
        writer: RunWriter,
        options: RunOptions,
        given: Mapping[str, Any],
        plugins: Sequence[FoundPlugin],
        started: float | None = None,
    ) -> None:
        self.writer = writer
        self.live = LiveRun(
            convention=options.convention, peak_tflops=options.peak_tflops, budget=parse_budget(dict(given))
        )
        self.local = LocalFiles(writer.directory, plugins)
        self._plugins = plugins
        self.passport: dict[str, Any] | None = None
        self.stepped_once = False
        self.failures: list[tuple[str, int, str]] = []
        """Failures that its agents told of."""
        self._began = time.time() if started is None else started
        self._ranks = RankTimes()
        self._records: list[dict[str, Any]] = []
        self._blocked: dict[tuple[str, int], tuple[float, str]] = {}
        self._reader: RunReader | None = None
        self._bound = LogBound(writer)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return max(0.0, time.time() - self._began)

    def emit(self, record: dict[str, Any]) -> None:
        """Take a record of one of its processes."""
        kind = record.get("type")
        if kind == "scalars":
            self.local.hold_all(tuple(row) for row in record.get("rows", ()))
            return
        if kind == "model" and isinstance(record.get("description"), dict):
            self.live.model(int(record.get("rank", 0)), record["description"])
        elif kind == "counted" and int(record.get("rank", 0)) == 0:
            self.live.counted(record)
        elif kind == "budget" and isinstance(record.get("budget_steps"), int):
            self.live.budget(Budget("steps", record["budget_steps"]))
        elif kind in ("process", "saved", "parallel"):
            self.live.note(record)
        elif kind == "tracker":
            self.local.not_needed()
        elif kind == "blocked":
            key = (str(record.get("call")), int(record.get("pid", 0)))
            self._blocked[key] = (float(record.get("seconds", 0.0)), str(record.get("advice", "")))
        elif kind == "failure":
            told = (str(record.get("site")), int(record.get("count", 1)), str(record.get("first", "")))
            self.failures.append(told)
        self._records.append(record)

    def surrounded(self, records: Sequence[dict[str, Any]]) -> None:
        """Take records of the node and its GPUs."""
        self._records += records

    def stepped(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        """Take a window of steps of one of its processes, which ended then."""
        self.stepped_once = True
        self.live.steps(reader.identity.rank, reader.identity.world_size, fields, reader.identity.pid, end)
        self._ranks.stepped(reader.identity.rank, fields)

    def flush(self) -> bool:
        """Write what is new to the log; False when nothing can be written any more."""
        records, self._records = self._records, []
        if records:
            self.writer.append_many(records)
        return self.writer.problem is None

    def keep_bounded(self) -> None:
        """Let the log's older part be merged where it has become too long. Raises OSError where it cannot be read."""
        if not self._bound.ready():
            return
        reader = self._log_reader()
        reader.read_on()
        if self._bound.take():
            reader.merged()
            with contextlib.suppress(OSError, TypeError):  # a full disk: the log itself is whole
                reader.save()

    def save_snapshot(self) -> None:
        """Sum up the log so far: readers of a long run, and its end, then need not begin at the first line.

        Raises OSError or TypeError where that cannot be.
        """
        reader = self._log_reader()
        reader.read_on()
        reader.save()

    def awake(self) -> None:
        """A process of it trains again after its end was written: the passport is not whole any more."""
        for name in (PASSPORT_FILE, PASSPORT_MARKDOWN_FILE):
            (self.writer.directory / name).unlink(missing_ok=True)
        self.passport = None
        tracked = not self.local.wanted
        self.local = LocalFiles(self.writer.directory, self._plugins)
        if tracked:
            self.local.not_needed()

    def close(self, end: Mapping[str, Any]) -> None:
        """Write how it ended (fields of an `exit` record), and the passport."""
        from trainmeter_core.passport import card
        from trainmeter_core.passport.build import build
        from trainmeter_core.passport.markdown import render

        self._bound.close()
        straggler = self._ranks.verdict()
        if straggler is not None:
            self._records.append({"type": "verdict", **straggler._asdict()})
        self.flush()
        self.writer.append("exit", **end)
        self.passport = build(self._log_reader().finish())
        self._reader = None
        tags, pictures = card.picture_tags(self.passport, "passport"), card.pictures_of(self.passport, "passport")
        self.writer.write_passport(self.passport, render(self.passport, tags), pictures)
        self.local.close(render(self.passport), self.passport)

    def line(self, seconds: float) -> str | None:
        """What it came to; None where no step was seen."""
        if self.passport is None or not self.stepped_once:
            return None
        place = str(self.writer.directory / PASSPORT_MARKDOWN_FILE)
        return summary_line(self.passport, place, blocking_calls(self._blocked, self.passport, seconds))

    def _log_reader(self) -> RunReader:
        if self._reader is None:
            from trainmeter_core.runlog.read import RunReader

            self._reader = RunReader(self.writer.directory)
        return self._reader
