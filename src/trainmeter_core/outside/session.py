"""One run under tm: lays out its files, launches the command, watches it, and writes what it came to."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.meter import Budget, parse_budget
from trainmeter_core.plugins import find_plugins, managers
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import PASSPORT_MARKDOWN_FILE
from trainmeter_core.runlog.write import RunWriter

from .drain import Drain, RingReader
from .environment import adapters_environment, agent_environment
from .git_state import git_state
from .launch import Exit, end_like, inherited_environment, launch
from .live import LiveRun
from .local_files import LocalFiles
from .metrics import MetricsServer
from .newest import Newest
from .pending import deliver_in_background, pending_files
from .program import program_of
from .progress import NOT_SILENT, ProgressLine
from .recover import recover_in_background
from .spool import Spool
from .straggler import RankTimes
from .summary import blocking_calls, failure_line, nothing_seen, summary_line
from .voice import Voice
from .web import Web

if TYPE_CHECKING:
    from trainmeter_core.runlog.read import RunReader

    from .options import RunOptions
    from .surroundings import Surroundings

TICK_S = 0.5
_ROW_EVERY_S = 1.0
SNAPSHOT_EVERY_S = 60.0
_MOST_FAILURES = 100

_GIVEN = ("convention", "peak_tflops", "budget_tokens", "budget_steps", "budget_flops", "budget_hours")


def run(options: RunOptions, argv: list[str]) -> int:
    """Run `argv` and end as it ended; returns only an exit code, a death by signal is repeated on tm itself."""
    session = Session(options, argv)
    deliver_in_background()
    end = launch(
        argv,
        session.environment(inherited_environment()),
        tick=session.tick,
        tick_s=TICK_S,
        on_start=session.child_started,
        on_error=session.own_failure,
    )
    session.close(end)
    end_like(end)


class Session:
    """Everything of tm's own around one command."""

    def __init__(self, options: RunOptions, argv: list[str]) -> None:
        self.options = options
        self.argv = argv
        self.voice = Voice(quiet=options.quiet, transcript=options.transcript)
        self._start = time.monotonic()
        self.given = {name: getattr(options, name) for name in _GIVEN}
        program = program_of(options.kind, options.target, argv)
        self.writer = RunWriter.create(
            program.name, argv, **_about(options, self.given), **git_state(program.directory)
        )
        self.plugins, broken = find_plugins(without=options.no_plugins)
        self.failures: list[tuple[str, int, str]] = [(f"plugin {name}", 1, why) for name, why in broken]
        """Failures of tm's own process."""
        self._agent_failures: list[tuple[str, int, str]] = []
        self.live = LiveRun(
            convention=options.convention, peak_tflops=options.peak_tflops, budget=parse_budget(self.given)
        )
        self.local = LocalFiles(self.writer.directory, self.plugins)
        self.web = Web(self.plugins, asked=options.web, port=options.port, keep=options.keep_web)
        self.surroundings: Surroundings | None = None
        self.metrics = self._metrics_server()
        self.spool = self._make_spool()
        self.newest = Newest(self.spool, self.metrics)
        self.drain = Drain(self.spool.path, self._emit) if self.spool is not None else None
        if self.drain is not None:
            self.drain.on_steps = self._stepped
        self.agents = 0
        self.ranks = RankTimes()
        self.passport: dict[str, Any] | None = None
        self._environ: dict[str, str] = {}
        self._records: list[dict[str, Any]] = []
        self._trackers: set[str] = set()
        """Whose runs the user was shown the way to."""
        self._blocked: dict[tuple[str, int], tuple[float, str]] = {}
        self._stepped_once = False
        self._reader: RunReader | None = None
        self._progress = ProgressLine.on_terminal() if options.progress else None
        self._next_row = 0.0
        self._next_snapshot = self._start + SNAPSHOT_EVERY_S

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """The command's environment; without a spool there is nothing for an agent to write to."""
        self._environ = base
        if self.spool is None:
            return base
        base = {**base, **dict(self.options.variables)}
        url = self.metrics.own_series_url if self.metrics is not None else ""
        added, failed = adapters_environment(base, self.plugins, url)
        self.failures += [(f"plugin {name}", 1, why) for name, why in failed]
        return agent_environment(
            {**base, **added},
            run_id=self.writer.run_id,
            run_dir=str(self.writer.directory),
            spool=self.spool.path,
            options=self.given,
            plugins=self.plugins,
            no_taps=self.options.no_taps,
            count=self.options.count,
        )

    def _make_spool(self) -> Spool | None:
        try:
            return Spool(self.writer.run_id)
        except OSError as error:
            self.failures.append(("spool", 1, str(error)))
            return None

    def _metrics_server(self) -> MetricsServer | None:
        labels = {"run": self.writer.run_id, "node": platform.node()}
        for port in dict.fromkeys((self.options.metrics_port, 0)):
            try:
                return MetricsServer(port, labels)
            except OSError as error:
                if port:  # another run's, most likely: this one is then served elsewhere
                    self.voice.tell(f"port {port} cannot be had for /metrics: {error.strerror or error}")
                else:
                    self.failures.append(("metrics", 1, str(error)))
        return None

    # --- while the command runs ---------------------------------------------------------------------------------

    def child_started(self, _pid: int) -> None:
        """The command runs: what takes time to load does not delay it any more."""
        if self.options.progress and self._progress is None and (os.isatty(1) or os.isatty(2)):
            self.voice.tell(NOT_SILENT)
        from .surroundings import Surroundings

        self.surroundings = Surroundings(self._environ, peak_tflops=self.options.peak_tflops)
        recover_in_background()

    def tick(self) -> None:
        """Carry over what the agents wrote, read the surroundings, publish what nobody else does."""
        if self.drain is not None:
            self.drain.poll()
        self._look_around()
        now = time.monotonic()
        if now >= self._next_row:
            self._next_row = now + _ROW_EVERY_S
            self._take_row()
        self._flush()
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_EVERY_S
            self._save_snapshot()
        if self.local.write() and not self.web.start(self.local.directory):
            self._say_where(self.local.command)
        self._say(self.web.news())

    def _look_around(self) -> None:
        around = self.surroundings
        if around is None:
            return
        self._take_around(around, around.poll(self.drain.rings.values() if self.drain is not None else ()))

    def _take_around(self, around: Surroundings, records: list[dict[str, Any]]) -> None:
        self._records += records
        for notice in around.notices:
            self.voice.tell(notice)
        around.notices.clear()
        if not records:
            return
        self.newest.node(around.readings)
        self.newest.gpus(around.gpus)
        self.live.devices_per_rank = around.gpus.devices_per_rank
        if not isinstance(around.gpus.peak, Absent):
            self.live.peak_tflops = around.gpus.peak.tflops

    def _take_row(self) -> None:
        """Serve what is new, and keep it for the files of a run without a tracker."""
        row = self.live.row()
        if row is not None:
            devices = max(1, round(self.live.local_ranks * self.live.devices_per_rank))
            row = self.newest.row(row, devices=devices, peak_tflops=self.live.peak_tflops)
            self.local.hold(row, time.time())
            if self._progress is not None:
                self._progress.show(row)
        if self.drain is not None:
            self.newest.ranks(self.drain.rings.values())
        self.newest.serve()

    def _emit(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "scalars":
            self.local.hold_all(tuple(row) for row in record.get("rows", ()))
            return
        if kind == "model" and isinstance(record.get("description"), dict):
            self.live.model(int(record.get("rank", 0)), record["description"])
            if self.surroundings is not None:
                self.surroundings.model(record)
        elif kind == "counted" and int(record.get("rank", 0)) == 0:
            self.live.counted(record)
        elif kind == "budget" and isinstance(record.get("budget_steps"), int):
            self.live.budget(Budget("steps", record["budget_steps"]))
        elif kind == "tracker" and isinstance(record.get("where"), dict):
            self._tracker(str(record.get("tracker")), record["where"])
        elif kind == "blocked":
            key = (str(record.get("call")), int(record.get("pid", 0)))
            self._blocked[key] = (float(record.get("seconds", 0.0)), str(record.get("advice", "")))
        elif kind == "failure":
            told = (str(record.get("site")), int(record.get("count", 1)), str(record.get("first", "")))
            self._agent_failures.append(told)
        self._records.append(record)

    def _stepped(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        self._stepped_once = True
        if self.surroundings is not None:
            self.surroundings.stepped(fields, end)
        self.live.steps(reader.identity.rank, reader.identity.world_size, fields)
        self.ranks.stepped(reader.identity.rank, fields)

    def _tracker(self, tracker: str, where: dict[str, str]) -> None:
        self.local.not_needed()
        self.web.close()
        if tracker in self._trackers:
            return
        for _, manager in managers(self.plugins):
            line: str | None = manager.hook.where(tracker=tracker, place=where)
            if line:
                self._trackers.add(tracker)
                self._say_where(line)

    def _say(self, line: str | None) -> None:
        if line:
            self.voice.tell(line)

    def _say_where(self, line: str | None) -> None:
        if line:
            self.voice.tell(f"look at this run: {line}")

    def _flush(self) -> None:
        records, self._records = self._records, []
        if records:
            self.writer.append_many(records)
        if self.spool is not None and self.drain is not None and self.writer.problem is None:
            try:
                self.spool.note(self.drain.positions())
            except OSError:
                # The spool was emptied, or is full: only a recovery would have needed it.
                return

    def _log_reader(self) -> RunReader:
        if self._reader is None:
            from trainmeter_core.runlog.read import RunReader

            self._reader = RunReader(self.writer.directory)
        return self._reader

    def _save_snapshot(self) -> None:
        """Sum up the log so far: readers of a long run, and its end, then need not begin at the first line."""
        try:
            reader = self._log_reader()
            reader.read_on()
            reader.save()
        except (OSError, TypeError) as error:  # a full disk; the log itself is whole
            self._next_snapshot = float("inf")
            self.own_failure(error)

    def own_failure(self, error: Exception) -> None:
        """Something of tm's own failed while the command ran; the same again, at each tick perhaps, is one entry."""
        told = f"{type(error).__name__}: {error}"
        for at, (site, count, first) in enumerate(self.failures):
            if (site, first) == ("tm", told) or (site == "tm" and at >= _MOST_FAILURES):
                self.failures[at] = (site, count + 1, first)
                return
        self.failures.append(("tm", 1, told))

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self, end: Exit) -> None:
        """Write everything that is known, and say in one line what the run came to. Never raises."""
        seconds = time.monotonic() - self._start
        if self._progress is not None:
            self._progress.close()
        for step in (
            self._last_look,
            lambda: self._record_end(end, seconds),
            self._write_passport,
            lambda: self._say(self.web.close()),
            lambda: self._report(end, seconds),
        ):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the exit code of the user's command comes first
                self.own_failure(error)
        if self.metrics is not None:
            self.metrics.close()
        if self.spool is not None:
            self.spool.remove()
        self.writer.close()

    def _last_look(self) -> None:
        if self.drain is not None:
            self.drain.poll()
            self.agents = self.drain.agents()
        straggler = self.ranks.verdict()
        if straggler is not None:
            self._records.append({"type": "verdict", **straggler._asdict()})
        if self.surroundings is not None:
            self._take_around(self.surroundings, self.surroundings.close())
        self._take_row()
        if self.local.write(at_the_end=True) and not self.web.start(self.local.directory, at_the_end=True):
            self._say_where(self.local.command)
        self._flush()

    def _record_end(self, end: Exit, seconds: float) -> None:
        for site, count, first in self.failures:
            self.writer.append("failure", site=site, count=count, first=first)
        code = None if end.signal is not None else end.code
        self.writer.append("exit", code=code, signal=end.signal, seconds=seconds)

    def _write_passport(self) -> None:
        from trainmeter_core.passport import card
        from trainmeter_core.passport.build import build
        from trainmeter_core.passport.markdown import render

        self.passport = build(self._log_reader().finish())
        tags, pictures = card.picture_tags(self.passport, "passport"), card.pictures_of(self.passport, "passport")
        self.writer.write_passport(self.passport, render(self.passport, tags), pictures)
        self.local.close(render(self.passport), self.passport)

    def _report(self, end: Exit, seconds: float) -> None:
        if end.problem:
            self.voice.say(end.problem)
        if self.passport is not None and self._stepped_once:
            place = str(self.writer.directory / PASSPORT_MARKDOWN_FILE)
            self.voice.tell(summary_line(self.passport, place, blocking_calls(self._blocked, self.passport, seconds)))
            for verdict in self.passport["verdicts"][:1]:
                self.voice.tell(verdict["sentence"])
        elif not end.problem and not self.writer.problem:
            self.voice.tell(f"{nothing_seen(self.agents, self.argv)} · run directory {self.writer.directory}")
        if pending_files(self.writer.directory):
            self.voice.tell("a tracker did not answer: `tm publish`, or the next run under tm, sends what waits for it")
        if self.writer.problem:
            self.voice.tell(f"the run log stopped, what came after it was not kept: {self.writer.problem}")
        failures = self.failures + self._agent_failures
        if failures:
            self.voice.tell(failure_line(failures))


def _about(options: RunOptions, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of run.json that the user's options fill."""
    about = {name: value for name, value in given.items() if value is not None}
    if options.run_name:
        about["name"] = options.run_name
    if options.peak_tflops:
        about["peak_source"] = "user"
    if any(name.startswith("budget") for name in about):
        about["budget_source"] = "user"
    return about
