"""Who this process is: rank, world size, and when it started, on the clock that all processes of a node share."""

from __future__ import annotations

import os
import sys
from time import monotonic, time

from ..ring_format import Identity

MYPY = False
if MYPY:
    pass


def identity_of_process(known: Identity | None = None) -> Identity:
    """Read the identity now; ``known`` keeps an earlier reading's start. The rank may appear only later in a run."""
    now = monotonic()
    rank, local, world = _ranks()
    return Identity(
        pid=os.getpid(),
        rank=rank,
        local_rank=local,
        world_size=world,
        wall_clock=time(),
        monotonic=now,
        process_start=known.process_start if known else max(now - _age_of_process(), _began_late()),
    )


def _ranks() -> tuple[int, int, int]:
    """Rank, local rank and world size: of torch.distributed where it runs, else of the launcher's environment."""
    distributed = sys.modules.get("torch.distributed")
    local = _number("LOCAL_RANK", 0)
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), local, distributed.get_world_size()
    except Exception:  # noqa: BLE001, S110 - a half-imported or torn-down process group
        pass
    return _number("RANK", 0), local, _number("WORLD_SIZE", 1)


def _number(name: str, default: int) -> int:
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        return default


def _began_late() -> float:
    """When Python began in a process that was a shell's before; 0 where it is as old as its process."""
    bootstrap = sys.modules.get(__package__ + ".bootstrap")
    return bootstrap.program_start if bootstrap is not None else 0.0


def _age_of_process() -> float:
    """Seconds since the kernel started this process; 0 where /proc does not tell."""
    try:
        from time import CLOCK_BOOTTIME, clock_gettime

        with open("/proc/self/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, clock_gettime(CLOCK_BOOTTIME) - started)
    except (OSError, ImportError, ValueError, IndexError):
        # Not Linux, or /proc is hidden: the start is when we first looked.
        return 0.0
