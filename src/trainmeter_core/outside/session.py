"""One run under tm: lays out its files, launches the command, watches it, and writes what it came to."""

from __future__ import annotations

import platform
import sys
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.meter import parse_budget
from trainmeter_core.plugins import find_plugins
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import PASSPORT_MARKDOWN_FILE
from trainmeter_core.runlog.write import RunWriter

from .drain import Drain, RingReader
from .environment import adapters_environment, agent_environment
from .git_state import git_state
from .hang import HangWatch
from .launch import Exit, end_like, inherited_environment, launch
from .live import LiveRun
from .local_files import LocalFiles
from .metrics import MetricsServer
from .newest import Newest
from .program import program_of
from .spool import Spool
from .summary import failure_line, nothing_seen, summary_line

if TYPE_CHECKING:
    from .gpu_watch import GpuWatch
    from .options import RunOptions

TICK_S = 0.5
_NODE_EVERY_S = 1.0
_ROW_EVERY_S = 1.0

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
        self.node: Any = None
        self.gpus: GpuWatch | None = None
        self.hang = HangWatch()
        self._environ: dict[str, str] = {}
        self.spool: Spool | None = None
        try:
            self.spool = Spool(self.writer.run_id)
        except OSError as error:
            self.failures.append(("spool", 1, str(error)))
        self._unwritten: list[tuple[dict[str, float], float]] = []
        self._next_row = 0.0
        self.metrics = self._metrics_server()
        self.newest = Newest(self.spool, self.metrics)
        self.drain = Drain(self.spool.path, self._emit) if self.spool is not None else None
        if self.drain is not None:
            self.drain.on_steps = self._stepped

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """The command's environment; without a spool there is nothing for an agent to write to."""
        self._environ = base
        if self.spool is None:
            return base
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
        self._read_gpus()
        if now >= self._next_row:
            self._next_row = now + _ROW_EVERY_S
            self._take_row()
        self._flush()
        if self._first_step_at is not None and now - self._first_step_at > _TRACKER_GRACE_S:
            self._write_rows()

    def _take_row(self) -> None:
        """Serve what is new, and keep it for the files of a run without a tracker."""
        row = self.live.row()
        if row is not None:
            local = max(1, round(self.live.local_ranks * self.live.devices_per_rank))
            row = self.newest.row(row, devices=local, peak_tflops=self.live.peak_tflops)
            if not self._trackers:
                self._unwritten.append((row, time.time()))
        if self.drain is not None:
            self.newest.ranks(self.drain.rings.values())
        self.newest.serve()

    def _write_rows(self) -> None:
        rows, self._unwritten = self._unwritten, []
        if self._trackers:
            return
        for row, at in rows:
            if self.local.write(row, at):
                self._say_where(self.local.command)

    def _emit(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "model" and isinstance(record.get("description"), dict):
            self.live.model(int(record.get("rank", 0)), record["description"])
            if self.gpus is not None:
                self.gpus.model(int(record.get("rank", 0)), record["description"], list(record.get("gpus", ())))
        elif kind == "tracker":
            self._tracker(str(record.get("tracker")), record.get("where"))
        elif kind == "failure":
            self.failures.append((str(record.get("site")), int(record.get("count", 1)), str(record.get("first", ""))))
        self._records.append(record)

    def _stepped(self, reader: RingReader, fields: dict[str, Any], end: float) -> None:
        if self._first_step_at is None:
            self._first_step_at = time.monotonic()
        self.hang.stepped(fields, end)
        if self.gpus is not None:
            self.gpus.stepped(fields, end)
        self.live.steps(reader.identity.rank, reader.identity.world_size, fields)

    def _tracker(self, tracker: str, where: Any) -> None:
        if tracker in self._trackers or not isinstance(where, dict):
            return
        line = self.local.where(tracker, where) or ""
        self._trackers[tracker] = line
        if line:
            self._say_where(line)

    def _say_where(self, line: str | None) -> None:
        if line:
            self._tell(f"look at this run: {line}")

    def _tell(self, line: str) -> None:
        if not self.options.quiet:
            self._say(line)

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

    def child_started(self, _pid: int) -> None:
        """The command runs: what takes time to load does not delay it any more."""
        from .gpu_watch import GpuWatch

        self.gpus = GpuWatch(self._environ, peak_tflops=self.options.peak_tflops)
        self.node = self._node_sampler()

    def _metrics_server(self) -> MetricsServer | None:
        try:
            return MetricsServer(labels={"run": self.writer.run_id, "node": platform.node()})
        except OSError as error:
            self.failures.append(("metrics", 1, str(error)))
            return None

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
        self.newest.node(readings)

    # --- the GPUs -----------------------------------------------------------------------------------------------

    def _read_gpus(self) -> None:
        if self.gpus is not None:
            self._take_gpus(self.gpus, self.gpus.poll())

    def _take_gpus(self, gpus: GpuWatch, records: list[dict[str, Any]]) -> None:
        self._records += records
        for notice in gpus.notices:
            self._tell(notice)
        gpus.notices.clear()
        if not records:
            return
        self.newest.gpus(gpus)
        self.live.devices_per_rank = gpus.devices_per_rank
        if not isinstance(gpus.peak, Absent):
            self.live.peak_tflops = gpus.peak.tflops
        if self.drain is not None and (found := self.hang.look(gpus, self.drain.rings.values())) is not None:
            self._records.append({"type": "verdict", **found._asdict()})
            self._tell(found.sentence)

    def own_failure(self, error: Exception) -> None:
        """Something of tm's own failed while the command ran."""
        self.failures.append(("tm", 1, f"{type(error).__name__}: {error}"))

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self, end: Exit) -> None:
        """Write everything that is known, and say in one line what the run came to. Never raises."""
        seconds = time.monotonic() - self._start
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
        if self.metrics is not None:
            self.metrics.close()
        if self.spool is not None:
            self.spool.remove()
        self.writer.close()

    def _last_look(self) -> None:
        if self.drain is not None:
            self.drain.poll()
            self.agents = self.drain.agents()
        if self.gpus is not None:
            self._take_gpus(self.gpus, self.gpus.close())
        self._take_row()
        self._write_rows()
        self._flush()

    def _record_end(self, end: Exit, seconds: float) -> None:
        code = None if end.signal is not None else end.code
        for site, count, first in self.failures:
            if site.startswith(("tm", "plugin", "spool", "node", "metrics")):
                self.writer.append("failure", site=site, count=count, first=first)
        self.writer.append("exit", code=code, signal=end.signal, seconds=seconds)

    def _passport(self) -> None:
        from trainmeter_core.passport.build import build
        from trainmeter_core.passport.markdown import render
        from trainmeter_core.runlog.read import read_run

        self.passport = build(read_run(self.writer.directory))
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
            if self.passport["verdicts"]:
                self._say(self.passport["verdicts"][0]["sentence"])
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
