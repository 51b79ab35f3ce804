"""A real terminal to run commands in, and small programs to run."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest


class Terminal:
    """A command with its own pseudo-terminal, in whose foreground it runs."""

    def __init__(self, argv, env=None, cwd=None):
        self.text = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                if cwd:
                    os.chdir(cwd)
                os.execvpe(argv[0], argv, {**os.environ, **(env or {})})
            finally:
                os._exit(99)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, wanted: str, seconds: float = 20.0) -> str:
        """Read on until `wanted` was shown; what was shown since the last call."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            left = end - time.monotonic()
            assert left > 0, f"never saw {wanted!r} in {self.text!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.text += os.read(self.master, 4096).decode(errors="replace")
                except OSError:  # the other side closed
                    assert wanted in self.text, f"ended without {wanted!r}: {self.text!r}"
        shown, _, self.text = self.text.partition(wanted)
        return shown

    def end(self) -> int:
        """Read to the end; the exit code, negative for a death by signal."""
        with contextlib.suppress(OSError):
            while chunk := os.read(self.master, 4096):
                self.text += chunk.decode(errors="replace")
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal():
    opened = []

    def open_terminal(argv, **how):
        opened.append(Terminal(argv, **how))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


@pytest.fixture
def program(tmp_path):
    """Write a program into the test's folder; its path."""

    def write(source: str, name: str = "child.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return str(path)

    return write


@pytest.fixture
def tm():
    """The words that start tm."""
    script = Path(sys.executable).with_name("tm")
    return [str(script)] if script.exists() else [sys.executable, "-m", "trainmeter_core"]
