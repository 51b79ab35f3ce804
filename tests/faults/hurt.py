"""What fails on the machine in the middle of a training; as a program, a training that ends in one of these."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def no_descriptors_left():
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def no_file_may_grow():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def forks_and_dies():
    for _ in range(100):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)


def clock(jump):
    real = time.time
    time.time = lambda: jump(real())


def replace_by_file(path):
    shutil.rmtree(path)
    Path(path).write_text("")


def truncate(spool):
    for path in spool.glob("*.jsonl"):
        os.truncate(path, 0)


def garbage(spool, pattern):
    for path in spool.glob(pattern):
        with path.open("r+b") as file:
            file.write(os.urandom(8192))


# Each is given the spool, which the program itself knows nothing of.
FAULTS: dict[str, Callable[[Path], object]] = {
    "the spool is removed": shutil.rmtree,
    "the spool becomes a file": replace_by_file,
    "no descriptors are left": lambda _: no_descriptors_left(),
    "no file may grow": lambda _: no_file_may_grow(),
    "the clock jumps back": lambda _: clock(lambda now: now - 1e8),
    "the clock jumps ahead": lambda _: clock(lambda now: now + 1e10),
    "the clock is no number": lambda _: clock(lambda now: float("nan")),
    "a hundred forks": lambda _: forks_and_dies(),
    "side files are emptied": truncate,
    "side files are garbage": lambda spool: garbage(spool, "*.jsonl"),
    "the ring is garbage": lambda spool: garbage(spool, "*.ring"),
    "the board is garbage": lambda spool: garbage(spool, "board"),
}
# What can also be so from the beginning.
AT_FIRST = ("the spool is removed", "the spool becomes a file", "no descriptors are left", "no file may grow")

KILLS = {"tm": lambda: os.kill(os.getppid(), signal.SIGKILL), "itself": lambda: os.kill(os.getpid(), signal.SIGKILL)}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.faults import tiny_training

    def log(step, _values):
        if step == 1:
            time.sleep(1)
            if "TRAINMETER_RUN" in os.environ or sys.argv[1] == "itself":
                KILLS[sys.argv[1]]()

    print(json.dumps(tiny_training.train(log)))
