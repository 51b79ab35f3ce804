"""One command under tm: lays out its files, launches the command, watches it, and writes what it came to."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.plugins import find_plugins, managers
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.write import RunWriter

from .all_runs import AllRuns
from .drain import Drain
from .environment import adapters_environment, agent_environment
from .git_state import git_state
from .launch import Exit, end_like, inherited_environment, launch
from .metrics import MetricsServer
from .newest import Newest
from .one_run import OneRun
from .pending import deliver_in_background, pending_files
from .program import program_of
from .progress import NOT_SILENT, ProgressLine
from .recover import recover_in_background
from .resuming import asked_for, go_on, jobs_of, run_of_job
from .spool import Spool
from .summary import failure_line, nothing_seen
from .sums_before import SumsBefore
from .voice import Voice
from .web import Web

if TYPE_CHECKING:
    from .options import RunOptions
    from .resuming import Earlier
    from .ring_reader import RingReader
    from .surroundings import Surroundings

TICK_S = 0.5
_ROW_EVERY_S = 1.0
SNAPSHOT_EVERY_S = 60.0
_MOST_FAILURES = 100

_GIVEN = ("convention", "peak_tflops", "budget_tokens", "budget_steps", "budget_flops", "budget_hours")
_SEEN_FROM_OUTSIDE = {"code": None, "signal": None}


class NoSuchRunError(ValueError):
    """The run to go on with is not there, or cannot be gone on with: one line says why."""


def run(options: RunOptions, argv: list[str]) -> int:
    """Run `argv` and end as it ended; returns only an exit code, a death by signal is repeated on tm itself.

    Raises NoSuchRunError before anything is started.
    """
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
        self.plugins, broken = find_plugins(without=options.no_plugins)
        self.failures: list[tuple[str, int, str]] = [(f"plugin {name}", 1, why) for name, why in broken]
        """Failures of tm's own process."""
        self.writer = self._open_run()
        self.web = Web(self.plugins, asked=options.web, port=options.port, keep=options.keep_web)
        self.surroundings: Surroundings | None = None
        self.metrics = self._metrics_server()
        self.spool = self._make_spool()
        self.newest = Newest(self.spool, self.metrics)
        self.drain = Drain(self.spool.path, self._emit) if self.spool is not None else None
        self.agents = 0
        self._environ: dict[str, str] = {}
        self._trackers: set[tuple[str, int]] = set()
        """Whose runs the user was shown the way to."""
        self._progress = ProgressLine.on_terminal() if options.progress else None
        self._next_row = 0.0
        self._next_snapshot = self._start + SNAPSHOT_EVERY_S
        if self.drain is not None:
            self.drain.on_steps = self._stepped
            self.drain.is_known = self.runs.knows
        self.sums_before = SumsBefore(self.spool) if self.spool is not None else None
        if self.sums_before is not None:
            self.runs.on_join = self._joined
            self.sums_before.begins(self.runs.first)

    def _open_run(self) -> RunWriter:
        """Make the run directory, or reopen the one that this command goes on with."""
        options, program = self.options, program_of(self.options.kind, self.options.target, self.argv)
        jobs = jobs_of({**os.environ, **dict(options.variables)}, self.plugins)
        about = {**options.about(self.given), **git_state(program.directory)}
        earlier = self._earlier(program.name, jobs, about)
        if earlier is None:
            if jobs:
                about["jobs"] = [job.name for job in jobs]
            writer = RunWriter.create(program.name, self.argv, **about)
        else:
            writer = earlier.writer
            self.voice.tell(f"goes on with the run {writer.directory.name} ({earlier.how})")
        first = OneRun(writer, options, self.given, self.plugins)
        if earlier is not None:
            first.live.go_on_from(earlier.record)
        self.runs = AllRuns(first, self._begin_another)
        return writer

    def _earlier(self, script: str, jobs: list[Any], about: dict[str, Any]) -> Earlier | None:
        asked = self.options.resume
        try:
            if asked is not None:
                found = asked_for(asked, script)
                if found is None:
                    self.voice.tell(f"no earlier run of {script}: this is its first")
                    return None
                return go_on(found, "asked for", self.argv, time.time(), about)
            known = run_of_job(jobs, self.argv, script)
            return None if known is None else go_on(*known, self.argv, time.time(), about)
        except (LookupError, ValueError, OSError) as error:  # no such run, its program still runs, not ours to write
            said = str(error.args[0] if isinstance(error, LookupError) else error)
            if asked is not None:
                raise NoSuchRunError(said) from None
            self.voice.tell(f"a new run, because the earlier one cannot be gone on with: {said}")
            return None

    def _begin_another(self, record: dict[str, Any]) -> OneRun | None:
        """A process of another training began: a run directory for it, beside the first."""
        command = [str(word) for word in record.get("command", ())] or self.argv
        target = next((word for word in command[1:] if not word.startswith("-")), command[0])
        program = program_of("command", target, command)
        about = {**self.options.about(self.given), **git_state(program.directory), "beside": self.writer.run_id}
        writer = RunWriter.create(program.name, command, started=record.get("started"), **about)
        if writer.problem is not None:
            return None
        one = OneRun(writer, self.options, self.given, self.plugins, record.get("started"))
        known = self.runs.first.live
        one.live.devices_per_rank, one.live.peak_tflops = known.devices_per_rank, known.peak_tflops
        return one

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
            if self.sums_before is not None:
                self.sums_before.look(self.drain.rings.values())
        self._look_around()
        now = time.monotonic()
        if now >= self._next_row:
            self._next_row = now + _ROW_EVERY_S
            self._take_rows()
            self.runs.rest(_SEEN_FROM_OUTSIDE)
        self._flush()
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_EVERY_S
            self._save_snapshots()
        self._write_local(at_the_end=False)
        self._say(self.web.news())
        self.runs.keep_bounded()

    def _look_around(self) -> None:
        around = self.surroundings
        if around is None:
            return
        self._take_around(around, around.poll(self.drain.rings.values() if self.drain is not None else ()))

    def _take_around(self, around: Surroundings, records: list[dict[str, Any]]) -> None:
        self.runs.surrounded(records)
        for notice in around.notices:
            self.voice.tell(notice)
        around.notices.clear()
        if not records:
            return
        self.newest.node(around.readings)
        self.newest.gpus(around.gpus)
        for one in self.runs.all():
            one.live.devices_per_rank = around.gpus.devices_per_rank
            if not isinstance(around.gpus.peak, Absent):
                one.live.peak_tflops = around.gpus.peak.tflops

    def _take_rows(self) -> None:
        """Serve what is new, and keep it for the files of a run without a tracker."""
        for one in self.runs.all():
            row = one.live.row()
            if row is None:
                continue
            devices = max(1, round(one.live.local_ranks * one.live.devices_per_rank))
            row = self.newest.row(one.writer.run_id, row, devices=devices, peak_tflops=one.live.peak_tflops)
            one.local.hold(row, time.time())
            if self._progress is not None:
                self._progress.show(row)
        if self.drain is not None:
            self.newest.ranks((self.runs.id_of(pid), ring) for pid, ring in self.drain.by_pid())
        self.newest.serve([one.writer.run_id for one in self.runs.under_way()])

    def _write_local(self, *, at_the_end: bool) -> None:
        for one in self.runs.all():
            written = one.local.write(at_the_end=at_the_end)
            if written and not self.web.start(one.local.directory, at_the_end=at_the_end):
                self._say_where(one.local.command)

    def _emit(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "model" and isinstance(record.get("description"), dict) and self.surroundings is not None:
            self.surroundings.model(record)
        elif kind == "tracker" and isinstance(record.get("where"), dict):
            self._tracker(record)
        self.runs.emit(record)

    def _joined(self, record: dict[str, Any], one: OneRun) -> None:
        if self.spool is not None and one is not self.runs.first:
            self.spool.belongs_to(int(record["pid"]), one)
        if self.sums_before is not None:
            self.sums_before.joined(record, one)

    def _stepped(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        if self.surroundings is not None:
            self.surroundings.stepped(fields, end)
        self.runs.stepped(reader, fields, end)

    def _tracker(self, record: dict[str, Any]) -> None:
        self.web.close()
        tracker, pid = str(record.get("tracker")), int(record.get("pid", 0))
        keys = {(tracker, pid), (tracker, self.runs.number_of(record))}
        if keys & self._trackers:
            return
        for _, manager in managers(self.plugins):
            line: str | None = manager.hook.where(tracker=tracker, place=record["where"])
            if line:
                self._trackers |= keys
                self._say_where(line)

    def _say(self, line: str | None) -> None:
        if line:
            self.voice.tell(line)

    def _say_where(self, line: str | None) -> None:
        if line:
            self.voice.tell(f"look at this run: {line}")

    def _flush(self) -> None:
        written = self.runs.flush()
        if self.spool is not None and self.drain is not None and written:
            with contextlib.suppress(OSError):  # emptied, or full: only a recovery would have needed it
                self.spool.note(self.drain.positions())

    def _save_snapshots(self) -> None:
        for one in self.runs.all():
            try:
                one.save_snapshot()
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
        """Write everything that is known, and say in one line what each run came to. Never raises."""
        seconds = time.monotonic() - self._start
        if self._progress is not None:
            self._progress.close()
        for step in (
            self._last_look,
            lambda: self._close_runs(end, seconds),
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
        for one in self.runs.all():
            one.writer.close()

    def _last_look(self) -> None:
        if self.drain is not None:
            self.drain.poll()
            self.runs.settle()
            self.drain.finish()
            self.agents = self.drain.agents()
        if self.surroundings is not None:
            self._take_around(self.surroundings, self.surroundings.close())
        self._take_rows()
        self._write_local(at_the_end=True)
        missing = next((one.local.missing for one in self.runs.all() if one.local.missing), "")
        if missing:
            self.voice.tell(f"no tracker in this run, and no charts: {missing}")
        self._flush()

    def ended(self, end: Exit) -> dict[str, Any]:
        """How the command ended, as an `exit` record has it."""
        return {"code": None if end.signal is not None else end.code, "signal": end.signal}

    def _close_runs(self, end: Exit, seconds: float) -> None:
        for site, count, first in self.failures:
            self.writer.append("failure", site=site, count=count, first=first)
        # Of several trainings, none ended as the command that started them did.
        how = self.ended(end) if self.runs.alone else _SEEN_FROM_OUTSIDE
        self.runs.close(how, seconds)

    def _report(self, end: Exit, seconds: float) -> None:
        if end.problem:
            self.voice.say(end.problem)
        lines = self.runs.lines(seconds)
        for line in lines:
            self.voice.tell(line)
        if lines and self.runs.alone and self.runs.first.passport is not None:
            for verdict in self.runs.first.passport["verdicts"][:1]:
                self.voice.tell(verdict["sentence"])
        elif not lines and not end.problem and not self.writer.problem:
            self.voice.tell(f"{nothing_seen(self.agents, self.argv)} · run directory {self.writer.directory}")
        if any(pending_files(one.writer.directory) for one in self.runs.all()):
            self.voice.tell("a tracker did not answer: `tm publish`, or the next run under tm, sends what waits for it")
        for one in self.runs.all():
            if one.writer.problem:
                self.voice.tell(f"the run log stopped, what came after it was not kept: {one.writer.problem}")
        failures = self.failures + [failure for one in self.runs.all() for failure in one.failures]
        if failures:
            self.voice.tell(failure_line(failures))
