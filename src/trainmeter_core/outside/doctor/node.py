"""The node lines: where runs are kept, the spool, the clock, and which of the node's readings are to be had."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from trainmeter_core.outside.metrics import MetricsServer
from trainmeter_core.outside.node import NodeSampler
from trainmeter_core.outside.spool import Spool
from trainmeter_core.ring_format import RING_BYTES
from trainmeter_core.runlog.locate import runs_directory

from .line import Line

if TYPE_CHECKING:
    from pathlib import Path

_LEAST_BYTES = 100 << 20
_LATEST_MTIME_S = 5.0
_SETTLE_S = 0.1


def lines() -> list[Line]:
    """What a run needs of the node."""
    return [*_runs(), _spool(), _loopback(), *_clock(), *_readings()]


def _runs() -> list[Line]:
    directory = runs_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(directory).free
        writable = os.access(directory, os.W_OK)
    except OSError as error:
        return [Line("node", "run directories", "problem", f"{directory}: {error.strerror}", _HOME)]
    if not writable:
        return [Line("node", "run directories", "problem", f"{directory} cannot be written", _HOME)]
    if free < _LEAST_BYTES:
        return [Line("node", "run directories", "problem", f"{directory}: {free >> 20} MiB free", _HOME)]
    return [Line("node", "run directories", "ok", f"{directory}, {free >> 30} GiB free"), _file_clock(directory)]


def _file_clock(directory: Path) -> Line:
    """A file server with another clock makes runs look finished, or not yet begun."""
    path = directory / f".clock-{os.getpid()}"
    try:
        path.write_bytes(b"")
        apart = path.stat().st_mtime - time.time()
        path.unlink()
    except OSError as error:
        return Line("node", "file clock", "problem", f"{directory}: {error.strerror}", _HOME)
    if abs(apart) > _LATEST_MTIME_S:
        return Line("node", "file clock", "problem", f"files are stamped {apart:+.0f} s apart", "set the clocks (NTP)")
    return Line("node", "file clock", "ok", "agrees with the node's")


def _spool() -> Line:
    try:
        spool = Spool(f"doctor-{os.getpid()}")
    except OSError as error:
        return Line("node", "spool", "problem", str(error), "a temporary directory must be writable (TMPDIR)")
    try:
        free = os.statvfs(spool.path)
        room = free.f_bavail * free.f_frsize // RING_BYTES
        place = os.path.dirname(spool.path)
        if room < 1:
            return Line("node", "spool", "problem", f"{place} has no room for a ring", "give /dev/shm 64 MiB")
        return Line("node", "spool", "ok", f"{place}, room for {room} ranks")
    finally:
        spool.remove()


def _loopback() -> Line:
    try:
        MetricsServer().close()
    except OSError as error:
        return Line("node", "/metrics", "problem", str(error), "a loopback port is needed for scrapers only")
    return Line("node", "/metrics", "ok", "a loopback port can be had")


def _clock() -> list[Line]:
    """The run's times are differences of the monotonic clock; the wall clock only names them."""
    wall, monotonic = time.time(), time.monotonic()
    time.sleep(_SETTLE_S)
    drift = (time.time() - wall) - (time.monotonic() - monotonic)
    resolution = time.get_clock_info("monotonic").resolution
    if abs(drift) > _SETTLE_S:
        return [
            Line("node", "clock", "problem", f"the wall clock jumped by {drift:+.2f} s", "set it before a run (NTP)")
        ]
    return [Line("node", "clock", "ok", f"monotonic, {resolution:g} s")]


def _readings() -> list[Line]:
    sampler = NodeSampler()
    sampler.describe()
    sampler.sample()
    time.sleep(_SETTLE_S)
    known = sampler.sample()
    families = sorted({name.split("/")[1].split("_")[0] for name in known})
    found = [Line("node", "readings", "ok", f"{len(known)} ({', '.join(families)})")]
    reasons: dict[str, list[str]] = {}
    for name, reason in sampler.gaps.items():
        reasons.setdefault(reason, []).append(name)
    found += [Line("node", _some(names), "missing", reason) for reason, names in reasons.items()]
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004


_HOME = "choose another place: TRAINMETER_HOME=DIR"
