"""A program that somebody else started, and everything it started: processor, memory, threads and I/O, from /proc."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)
_RATES = {
    "process/read_bytes_per_s": "read_bytes",
    "process/write_bytes_per_s": "write_bytes",
}
_STATES = {"R": "process/threads_running", "D": "process/threads_in_io"}


class ProcessTree:
    """Reads only: no signal is ever sent. Raises ProcessLookupError when there is no such process."""

    def __init__(self, pid: int, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            self._root = psutil.Process(pid)
            self.command = self._root.cmdline()
            self.started = self._root.create_time()
        except _GONE as error:
            raise ProcessLookupError(pid) from error
        except psutil.AccessDenied:
            self.command, self.started = [], time.time()
        self._clock = clock
        self._known: dict[tuple[int, float], psutil.Process] = {}
        self._before: dict[tuple[int, float], dict[str, float]] = {}
        self._read_at = clock()

    def environ(self) -> dict[str, str] | None:
        """Its environment as it was started with; None when it is another user's."""
        try:
            return self._root.environ()
        except (psutil.Error, OSError):
            return None

    def directory(self) -> str | None:
        """Where it works."""
        try:
            return str(self._root.cwd())
        except (psutil.Error, OSError):
            return None

    def alive(self) -> bool:
        """Whether the process itself goes on; one of the same number that was started later is another."""
        try:
            return bool(self._root.is_running() and self._root.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def sample(self) -> dict[str, float]:
        """Readings over the whole tree since the last call; rates appear with the second."""
        now = self._clock()
        seconds, self._read_at = now - self._read_at, now
        totals: dict[str, float] = {}
        counters: dict[tuple[int, float], dict[str, float]] = {}
        for process in self._members():
            with contextlib.suppress(*_GONE):
                key = (process.pid, process.create_time())
                counters[key] = self._one(process, totals)
        totals["process/count"] = len(counters)
        shared = counters.keys() & self._before.keys()
        if shared and seconds > 0:
            for name in sorted({name for key in shared for name in counters[key]}):
                pairs = [(counters[key][name], self._before[key][name]) for key in shared if name in counters[key]]
                totals[name] = sum(max(0.0, after - before) for after, before in pairs) / seconds
            if "process/cpu_pct" in totals:
                totals["process/cpu_pct"] *= 100.0
        self._before = counters
        return totals

    def _members(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []

    @staticmethod
    def _one(process: psutil.Process, totals: dict[str, float]) -> dict[str, float]:
        """Add what can be added up now; give the counters that only differences of mean something."""
        counters: dict[str, float] = {}
        with contextlib.suppress(psutil.AccessDenied), process.oneshot():
            times = process.cpu_times()
            counters["process/cpu_pct"] = times.user + times.system
            _add(totals, "process/threads", process.num_threads())
            _add(totals, "process/rss_bytes", process.memory_info().rss)
        for name in _thread_states(process.pid):
            _add(totals, name, 1)
        with contextlib.suppress(psutil.AccessDenied, AttributeError):
            io = process.io_counters()
            counters.update({name: getattr(io, field) for name, field in _RATES.items()})
        return counters


def _add(totals: dict[str, float], name: str, value: float) -> None:
    totals[name] = totals.get(name, 0.0) + value


def _thread_states(pid: int) -> list[str]:
    """A name per thread that runs or waits in the kernel for a device."""
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0].decode()
        except (OSError, IndexError):  # it ended meanwhile
            continue
        if state in _STATES:
            found.append(_STATES[state])
    return found
