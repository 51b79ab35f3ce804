"""What fails on the machine in the middle of a training; as a program, a training that ends in one of these."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
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
    with contextlib.suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)


def no_file_may_grow():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def no_memory_left():
    """No page more than the process has by now; what it has freed it can use again."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), resource.RLIM_INFINITY))


def no_maps():
    def refuses(*_args, **_kwargs):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    setattr(mmap, "mmap", refuses)  # noqa: B010 - mypy refuses the assignment


def refuses(code):
    """The system refuses whatever is to be opened below the spool."""

    def hurts(spool):
        real = os.open

        def opens(path, *args, **kwargs):
            if os.fspath(path).startswith(str(spool)):
                raise OSError(code, os.strerror(code), path)
            return real(path, *args, **kwargs)

        os.open = opens

    return hurts


def loses_its_rights(spool):
    """The directory is another user's from now on."""
    if os.geteuid():
        spool.chmod(0)
    else:
        os.setresuid(65534, 65534, 65534)


def pipes(spool):
    """A pipe that nobody reads in the place of every file, and of the files that this process would make."""
    names = {path.name for path in spool.iterdir()}
    names |= {f"r0-{os.getpid()}.jsonl", f"r0-{os.getpid()}.ring", f"run-{os.getpid()}", "r1-1.jsonl", "r1-1.ring"}
    for name in names - {f"agent-{os.getpid()}"}:
        (spool / name).unlink(missing_ok=True)
        os.mkfifo(spool / name)


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


REFUSALS = (errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENOMEM, errno.EDQUOT, errno.EIO, errno.ESTALE)

# Each is given the spool, which the program itself knows nothing of.
FAULTS: dict[str, Callable[[Path], object]] = {
    "the spool is removed": shutil.rmtree,
    "the spool becomes a file": replace_by_file,
    "no descriptors are left": lambda _: no_descriptors_left(),
    "no file may grow": lambda _: no_file_may_grow(),
    "no memory is left": lambda _: no_memory_left(),
    "no memory can be mapped": lambda _: no_maps(),
    **{f"open gives {errno.errorcode[code]}": refuses(code) for code in REFUSALS},
    "the rights to the spool are lost": loses_its_rights,
    "pipes stand in the spool": pipes,
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
AT_FIRST = (
    "the spool is removed",
    "the spool becomes a file",
    "no descriptors are left",
    "no file may grow",
    "no memory is left",
    "no memory can be mapped",
    *(f"open gives {errno.errorcode[code]}" for code in REFUSALS),
    "the rights to the spool are lost",
    "pipes stand in the spool",
)

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
