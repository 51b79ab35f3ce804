"""One run under tm: lays out its files, launches the command, watches it, and writes what it came to."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.meter import Budget, parse_budget
from trainmeter_core.plugins import find_plugins
from trainmeter_core.runlog.format import PASSPORT_MARKDOWN_FILE
from trainmeter_core.runlog.write import RunWriter

from .drain import Drain, RingReader
from .environment import agent_environment
from .git_state import git_state
from .launch import Exit, end_like, inherited_environment, launch
from .live import LiveRun
from .local_files import LocalFiles
from .program import program_of
from .progress import NOT_SILENT, ProgressLine
from .recover import recover_in_background
from .spool import Spool
from .summary import failure_line, nothing_seen, summary_line

if TYPE_CHECKING:
    from trainmeter_core.runlog.read import RunReader

    from .options import RunOptions

TICK_S = 0.5
_NODE_EVERY_S = 1.0
SNAPSHOT_EVERY_S = 60.0

# What of the node goes to the tracker; all of it is in the run log.
PUBLISHED = (
    "node/cpu_pct",
    "node/cpu_iowait_pct",
    "node/load_1",
    "node/mem_used_pct",
    "node/cgroup_cpu_pct",
    "node/cgroup_mem_pct",
    "node/shm_used_pct",
    "node/fs_used_pct",
    "node/disk_read_bytes_per_s",
    "node/disk_write_bytes_per_s",
    "node/disk_busy_pct",
    "node/net_recv_bytes_per_s",
    "node/net_sent_bytes_per_s",
    "node/ib_recv_bytes_per_s",
    "node/ib_sent_bytes_per_s",
)

# Without a tracker by this time after the first step, the series go to files in the run directory.
_TRACKER_GRACE_S = 3.0


def run(options: RunOptions, argv: list[str]) -> int:
    """Run `argv` and end as it ended; returns only an exit code, a death by signal is repeated on tm itself."""
    session = Session(options, argv)
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
        self.agents = 0
        self.passport: dict[str, Any] | None = None
        self.started = time.time()
        self._start = time.monotonic()
        given = {
            name: getattr(options, name)
            for name in ("convention", "peak_tflops", "budget_tokens", "budget_steps", "budget_flops", "budget_hours")
        }
        about: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if options.run_name:
            about["name"] = options.run_name
        if options.peak_tflops:
            about["peak_source"] = "user"
        if any(name.startswith("budget") for name in about):
            about["budget_source"] = "user"
        program = program_of(options.kind, options.target, argv)
        self.writer = RunWriter.create(
            program.name, argv, started=self.started, **about, **git_state(program.directory)
        )
        self.given = given
        self.plugins, self.broken_plugins = find_plugins(without=options.no_plugins)
        self.live = LiveRun(convention=options.convention, peak_tflops=options.peak_tflops, budget=parse_budget(given))
        self.local = LocalFiles(self.writer.directory, self.plugins)
        self.failures: list[tuple[str, int, str]] = [(f"plugin {name}", 1, why) for name, why in self.broken_plugins]
        self._records: list[dict[str, Any]] = []
        self._trackers: dict[str, str] = {}
        self._first_step_at: float | None = None
        self._next_node = 0.0
        self._reader: RunReader | None = None
        self._progress = ProgressLine.on_terminal() if options.progress else None
        self._shown = LiveRun(convention=options.convention, peak_tflops=options.peak_tflops, budget=parse_budget(given))
        self._next_snapshot = self._start + SNAPSHOT_EVERY_S
        self.node: Any = None
        self.spool: Spool | None = None
        try:
            self.spool = Spool(self.writer.run_id)
        except OSError as error:
            self.failures.append(("spool", 1, str(error)))
        self.drain = Drain(self.spool.path, self._emit) if self.spool is not None else None
        if self.drain is not None:
            self.drain.on_steps = self._stepped

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """The command's environment; without a spool there is nothing for an agent to write to."""
        if self.spool is None:
            return base
        return agent_environment(
            base,
            run_id=self.writer.run_id,
            run_dir=str(self.writer.directory),
            spool=self.spool.path,
            options=self.given,
            plugins=self.plugins,
            no_taps=self.options.no_taps,
        )

    # --- while the command runs ---------------------------------------------------------------------------------

    def tick(self) -> None:
        """Carry over what the agents wrote, read the node, publish what nobody else does."""
        if self.drain is not None:
            self.drain.poll()
        now = time.monotonic()
        if now >= self._next_node:
            self._next_node = now + _NODE_EVERY_S
            self._sample_node()
        self._flush()
        if self._progress is not None:
            row = self._shown.row()
            if row is not None:
                self._progress.show(row)
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_EVERY_S
            self._save_snapshot()
        if self._first_step_at is not None and not self._trackers and now - self._first_step_at > _TRACKER_GRACE_S:
            row = self.live.row()
            if row is not None and self.local.write(row, time.time()):
                self._say_where(self.local.command)

    def _emit(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "model" and isinstance(record.get("description"), dict):
            for live in (self.live, self._shown):
                live.model(record["description"])
            if record["description"].get("device") == "cpu":
                self._records.append({"type": "hardware", "gpus": []})
        elif kind == "budget" and isinstance(record.get("budget_steps"), int):
            for live in (self.live, self._shown):
                live.budget(Budget("steps", record["budget_steps"]))
        elif kind == "tracker":
            self._tracker(str(record.get("tracker")), record.get("where"))
        elif kind == "failure":
            self.failures.append((str(record.get("site")), int(record.get("count", 1)), str(record.get("first", ""))))
        self._records.append(record)

    def _stepped(self, reader: RingReader, fields: dict[str, Any], _end: float) -> None:
        if self._first_step_at is None:
            self._first_step_at = time.monotonic()
        self.live.steps(reader.identity.rank, reader.identity.world_size, fields)
        if self._progress is not None:
            self._shown.steps(reader.identity.rank, reader.identity.world_size, fields)

    def _tracker(self, tracker: str, where: Any) -> None:
        if tracker in self._trackers or not isinstance(where, dict):
            return
        line = self.local.where(tracker, where) or ""
        self._trackers[tracker] = line
        if line:
            self._say_where(line)

    def _say_where(self, line: str | None) -> None:
        if line and not self.options.quiet:
            self._say(f"look at this run: {line}")

    def _say(self, line: str) -> None:
        try:
            print(f"tm: {line}", file=sys.stderr, flush=True)  # noqa: T201 - tm's own lines go to stderr
        except (OSError, ValueError):
            # Nobody reads stderr any more.
            return

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

    def child_started(self, _pid: int) -> None:
        """The command runs: what takes time to load does not delay it any more."""
        if self.options.progress and self._progress is None and (os.isatty(1) or os.isatty(2)):
            self._say(NOT_SILENT)
        self.node = self._node_sampler()
        recover_in_background()

    # --- the node -----------------------------------------------------------------------------------------------

    def _node_sampler(self) -> Any:
        try:
            from .node import NodeSampler

            sampler = NodeSampler()
            self.writer.append("hardware", **hardware_fields(sampler.describe()))
        except Exception as error:  # noqa: BLE001 - /proc and /sys of any kernel
            self.failures.append(("node", 1, f"{type(error).__name__}: {error}"))
            return None
        return sampler

    def _sample_node(self) -> None:
        if self.node is None:
            return
        readings = self.node.sample()
        self._records.append({"type": "node", "readings": readings})
        if self.spool is not None:
            self.spool.lay_out({"series": {name: readings[name] for name in PUBLISHED if name in readings}})

    def own_failure(self, error: Exception) -> None:
        """Something of tm's own failed while the command ran."""
        self.failures.append(("tm", 1, f"{type(error).__name__}: {error}"))

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self, end: Exit) -> None:
        """Write everything that is known, and say in one line what the run came to. Never raises."""
        seconds = time.monotonic() - self._start
        if self._progress is not None:
            self._progress.close()
        for step in (
            self._last_look,
            lambda: self._record_end(end, seconds),
            self._passport,
            lambda: self._report(end),
        ):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the exit code of the user's command comes first
                self.own_failure(error)
        if self.spool is not None:
            self.spool.remove()
        self.writer.close()

    def _last_look(self) -> None:
        if self.drain is not None:
            self.drain.poll()
            self.agents = self.drain.agents()
        if self._first_step_at is not None and not self._trackers:
            row = self.live.row()
            if row is not None and self.local.write(row, time.time()):
                self._say_where(self.local.command)
        self._flush()

    def _record_end(self, end: Exit, seconds: float) -> None:
        code = None if end.signal is not None else end.code
        for site, count, first in self.failures:
            if site.startswith(("tm", "plugin", "spool", "node")):
                self.writer.append("failure", site=site, count=count, first=first)
        self.writer.append("exit", code=code, signal=end.signal, seconds=seconds)

    def _passport(self) -> None:
        from trainmeter_core.passport.build import build
        from trainmeter_core.passport.markdown import render

        self.passport = build(self._log_reader().finish())
        text = render(self.passport)
        self.writer.write_passport(self.passport, text)
        self.local.close(text)

    def _report(self, end: Exit) -> None:
        if end.problem:
            self._say(end.problem)
        if self.options.quiet:
            return
        if self.passport is not None and self._first_step_at is not None:
            self._say(summary_line(self.passport, str(self.writer.directory / PASSPORT_MARKDOWN_FILE)))
        elif not end.problem:
            self._say(f"{nothing_seen(self.agents, self.argv)} · run directory {self.writer.directory}")
        if self.writer.problem:
            self._say(f"the run log stopped: {self.writer.problem}")
        if self.failures:
            self._say(failure_line(self.failures))


def hardware_fields(described: dict[str, Any]) -> dict[str, Any]:
    """The run log's `hardware` record from what the node sampler describes."""
    wanted = {"cpu": "cpu_model", "cpu_cores": "cpu_cores", "memory_bytes": "memory_bytes"}
    return {name: described[key] for name, key in wanted.items() if described.get(key) is not None}
