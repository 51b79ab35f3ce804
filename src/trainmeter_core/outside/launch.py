"""Run the user's command as if tm were not there, call `tick` while it runs, end as it ended."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from .signals import SignalRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

NOT_FOUND = 127
NOT_EXECUTABLE = 126
SIGNAL_BASE = 128


@dataclass(frozen=True)
class Exit:
    """How the command ended.

    `code` is what a shell shows as `$?` (128 + n for a death by signal n), `signal` the signal that ended it or None,
    `problem` why it could not be started at all, `tick_errors` how often our own work failed meanwhile.
    """

    code: int
    signal: int | None = None
    problem: str | None = None
    tick_errors: int = 0


def launch(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    tick: Callable[[], None],
    tick_s: float = 0.5,
    on_start: Callable[[int], None] | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> Exit:
    """Run `argv` with `env` in this session, process group and terminal, and return how it ended.

    `on_start` gets the child's process id; `tick` is called about every `tick_s` seconds while the child lives, not
    after its end. What they raise goes to `on_error` and is counted: it never reaches the child. Main thread only.

    The signal handlers stay in place until `end_like`, so that an impatient second Ctrl-C does not cost the records
    that are still to be written.
    """
    ours = _OwnWork(on_error)
    relay = SignalRelay()
    with _Wakeup() as wakeup:
        relay.install()
        try:
            child = _start(argv, env)
        except OSError as error:
            relay.restore()
            return _not_started(argv, error)
        relay.child_started(child.pid)
        if on_start is not None:
            ours.do(lambda: on_start(child.pid))
        status = _wait(child.pid, wakeup, lambda: ours.do(tick), tick_s)
        relay.child_ended()
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code  # reaped by us: Popen must neither wait for it nor warn
    if code < 0:
        return Exit(SIGNAL_BASE - code, signal=-code, tick_errors=ours.errors)
    return Exit(code, tick_errors=ours.errors)


def end_like(end: Exit) -> NoReturn:
    """End tm as the command ended; call when everything of ours is written.

    A death by signal is repeated on tm itself, without a second core file: a shell script stops after Ctrl-C only
    when it sees that its command died by SIGINT.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, a full disk, or not there at all
            stream.flush()
    if end.signal is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if end.signal not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(end.signal, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {end.signal})
        os.kill(os.getpid(), end.signal)
        # Still here: process 1 of a container, which default actions do not end.
    sys.exit(end.code)


def exec_bare(argv: Sequence[str], env: Mapping[str, str]) -> Exit:
    """Become the command: returns only when that is not possible, with the reason."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python itself, and inherited through exec
        signal.signal(number, signal.SIG_DFL)
    try:
        try:
            os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606  the user's own command
        except OSError as error:
            again = _through_shell(argv, env, error)
            os.execve(again[0], again, dict(env))  # noqa: S606
    except OSError as error:
        return _not_started(argv, error)


def inherited_environment() -> dict[str, str]:
    """The environment tm was started with.

    In a C locale Python sets LC_CTYPE=C.UTF-8 in its own environment (PEP 538); a command that is not Python would
    then behave differently under tm.
    """
    env = dict(os.environ)
    if env.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as started_with:
                entries = started_with.read().split(b"\0")
        except OSError:  # no /proc: keep what there is
            return env
        if not any(entry.startswith(b"LC_CTYPE=") for entry in entries):
            del env["LC_CTYPE"]
    return env


class _OwnWork:
    """The border to our own callbacks: their failures are counted, never felt by the child."""

    def __init__(self, on_error: Callable[[Exception], None] | None) -> None:
        self.errors = 0
        self._on_error = on_error

    def do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  a full disk, a driver error, a bug of ours: the run goes on
            self.errors += 1
            if self._on_error is not None:
                try:
                    self._on_error(error)
                except Exception:  # noqa: BLE001  reporting failed too, e.g. stderr is closed
                    self.errors += 1


class _Wakeup:
    """A pipe that becomes readable when any handled signal arrives, SIGCHLD among them."""

    def __enter__(self) -> _Wakeup:  # noqa: PYI034  Self needs Python 3.11
        self._read, self._write = os.pipe()  # close-on-exec, as every descriptor of ours
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # A handler also undoes an inherited SIG_IGN, under which the kernel would throw the exit status away.
        self._previous_handler = signal.signal(signal.SIGCHLD, _nothing)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._previous_fd)
        signal.signal(signal.SIGCHLD, self._previous_handler or signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float) -> None:
        if self._poll.poll(max(0.0, seconds) * 1000):
            with contextlib.suppress(BlockingIOError):  # another wakeup drained it
                os.read(self._read, 4096)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _wait(pid: int, wakeup: _Wakeup, tick: Callable[[], None], tick_s: float) -> int:
    next_tick = time.monotonic() + tick_s
    while True:
        status = _reaped(pid)
        if status is not None:
            return status
        wakeup.wait(next_tick - time.monotonic())
        if time.monotonic() >= next_tick:
            status = _reaped(pid)
            if status is not None:
                return status
            tick()
            next_tick = max(next_tick + tick_s, time.monotonic())  # a slow tick, or Ctrl-Z: no catching up


def _reaped(pid: int) -> int | None:
    if os.getpid() != 1:
        done, status = os.waitpid(pid, os.WNOHANG)
        return status if done else None
    return next((status for done, status in _dead_children() if done == pid), None)


def _dead_children() -> Iterator[tuple[int, int]]:
    """As process 1 of a container tm inherits every orphan, and has to reap it."""
    while True:
        try:
            done, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not done:
            return
        yield done, status


def _start(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # close_fds=False: `tm cat <(echo x)` hands /dev/fd/63 through us.
    try:
        return subprocess.Popen(list(argv), env=dict(env), close_fds=False)  # noqa: S603  the user's own command
    except OSError as error:
        return subprocess.Popen(_through_shell(argv, env, error), env=dict(env), close_fds=False)  # noqa: S603


def _through_shell(argv: Sequence[str], env: Mapping[str, str], error: OSError) -> list[str]:
    """A script without a #! line is run by the shell, as shells themselves do; raises `error` for all else."""
    if error.errno != errno.ENOEXEC:
        raise error
    path = _found(argv[0], env)
    with open(path, "rb") as script:
        if b"\0" in script.read(80):  # a binary for another machine
            raise error
    return ["/bin/sh", path, *argv[1:]]


def _found(name: str, env: Mapping[str, str]) -> str:
    if "/" in name:
        return name
    candidates = (os.path.join(folder, name) for folder in os.get_exec_path(env))
    return next((path for path in candidates if os.access(path, os.X_OK)), name)


def _not_started(argv: Sequence[str], error: OSError) -> Exit:
    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    reason = "command not found" if code == NOT_FOUND and "/" not in argv[0] else os.strerror(error.errno or 0)
    return Exit(code, problem=f"{argv[0]}: {reason}")
