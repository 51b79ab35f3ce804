"""Watches a program that is running already, from outside and without a signal, until it ends or the watcher stops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.passport.build import build
from trainmeter_core.passport.markdown import render
from trainmeter_core.runlog.bound import LogBound
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter

from .git_state import git_state
from .gpu_watch import GpuWatch
from .node import NodeSampler
from .program import program_of
from .surroundings import hardware_fields

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from .process_tree import ProcessTree

EVERY_S = 1.0


class AlreadyWatchedError(ValueError):
    """The program runs under tm."""


class Attached:
    """One watched program and the run directory that is written of it."""

    def __init__(self, tree: ProcessTree, *, run_name: str | None = None, peak_tflops: float | None = None) -> None:
        """Begin to watch. Raises AlreadyWatchedError with the directory of the run when tm started it."""
        environ = tree.environ()
        known = (environ or {}).get("TRAINMETER_RUN")
        if known:
            raise AlreadyWatchedError(known)
        self.tree = tree
        self._started = time.monotonic()
        command = tree.command or ["unknown"]
        program = program_of("command", command[0], command)
        about: dict[str, Any] = git_state(tree.directory() or ".")
        if run_name:
            about["name"] = run_name
        if peak_tflops:
            about |= {"peak_tflops": peak_tflops, "peak_source": "user"}
        self.writer = RunWriter.create(program.name, command, started=time.time(), **about)
        self.node = NodeSampler()
        self._bound = LogBound(self.writer)
        self.writer.append("hardware", **hardware_fields(self.node.describe()))
        self.gpus = GpuWatch(environ or {}, peak_tflops=peak_tflops)
        self.guessed = environ is None
        self._listed = False

    def watch(self, stop: threading.Event) -> bool:
        """Write a record of everything once a second; True when the program ended, False when `stop` was set."""
        while self.tree.alive():
            self._write()
            if self._bound.ready():
                self._bound.take()
            if stop.wait(EVERY_S):
                return False
        return True

    def close(self) -> dict[str, Any]:
        """Write the end and the passport, and give it."""
        self._bound.close()
        self._write(self.gpus.close())
        self.writer.append("exit", code=None, signal=None, seconds=time.monotonic() - self._started)
        passport = build(read_run(self.writer.directory))
        self.writer.write_passport(passport, render(passport))
        self.writer.close()
        return passport

    @property
    def directory(self) -> Path:
        return self.writer.directory

    def _write(self, last: list[dict[str, Any]] | None = None) -> None:
        records = self.gpus.poll() if last is None else last
        if not self._listed and (every := self.gpus.all_visible()):
            self._listed = True
            records += every
        readings = {**self.node.sample(), **self.tree.sample()}
        self.writer.append_many([*records, {"type": "node", "readings": readings}])
