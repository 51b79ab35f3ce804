"""A training in whose middle something of the machine's fails, as its first argument says; prints its result."""

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import tiny_training
import torch

torch.set_num_threads(1)
SPOOL, RUN = os.environ.get("TRAINMETER_SPOOL", ""), os.environ.get("TRAINMETER_RUN", "")
fault, at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1


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


def forks_and_trains():
    """Children that train as 64 ranks, at once."""
    pids = []
    for rank in range(64):
        pid = os.fork()
        if not pid:
            os.environ.update(RANK=str(rank), WORLD_SIZE="64", LOCAL_RANK=str(rank))
            tiny_training.train()
            sys.exit(0)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)


def clock(jump):
    real = time.time
    time.time = lambda: jump(real())


def replace_by_file(path):
    shutil.rmtree(path)
    Path(path).write_text("")


def truncate():
    for path in Path(SPOOL).glob("*.jsonl"):
        os.truncate(path, 0)


def garbage(pattern):
    for path in Path(SPOOL).glob(pattern):
        with path.open("r+b") as file:
            file.write(os.urandom(8192))


FAULTS = {
    "none": lambda: None,
    "the spool is removed": lambda: SPOOL and shutil.rmtree(SPOOL),
    "the spool becomes a file": lambda: SPOOL and replace_by_file(SPOOL),
    "the run directory is removed": lambda: RUN and shutil.rmtree(RUN),
    "no descriptors are left": no_descriptors_left,
    "no file may grow": no_file_may_grow,
    "the clock jumps back": lambda: clock(lambda now: now - 1e8),
    "the clock jumps ahead": lambda: clock(lambda now: now + 1e10),
    "the clock is no number": lambda: clock(lambda now: float("nan")),
    "a hundred forks": forks_and_dies,
    "64 ranks": forks_and_trains,
    "tm is killed": lambda: SPOOL and os.kill(os.getppid(), signal.SIGKILL),
    "the program is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "side files are emptied": truncate,
    "side files are garbage": lambda: garbage("*.jsonl"),
    "the ring is garbage": lambda: garbage("*.ring"),
    "the board is garbage": lambda: garbage("board"),
}
if fault.endswith("from the start"):
    FAULTS[fault[: -len(" from the start")]]()


def log(step, values):
    if step == at and fault in FAULTS:
        FAULTS[fault]()


print(json.dumps(tiny_training.train(log)))
