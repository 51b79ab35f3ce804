"""Signals between tm and its child: what the child would have got without tm, once.

The child shares tm's session and process group, so whatever the terminal sends (Ctrl-C, Ctrl-Z) reaches it
without help: tm only has to survive it. What somebody sends to tm's own process id is passed on. A signal that tm was
started with as ignored (nohup, a background job of a script) is left alone, and so stays ignored in the child as well.
A handler, never SIG_IGN, is what keeps tm alive: handlers are reset by exec, SIG_IGN would be inherited.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

ADDRESSED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Sent to a process by its id: passed on."""
TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Sent by a terminal to its whole foreground group: passed on only where no terminal can have sent them."""
STEP_WIDE = (signal.SIGUSR1, signal.SIGUSR2)
"""Sent by Slurm to every process of a step: not passed on there, or a requeue handler would run twice."""

_SLURM_SPECIAL_STEPS = 0xFFFFFFF0  # batch, interactive and extern steps: numbered from here up
_PATIENCE = 2  # signals swallowed after the child's end, while the last records are written


class SignalRelay:
    """Keeps tm alive through its child's life and passes signals on; main thread only."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._pid: int | None = None
        self._early: list[int] = []
        self._ended = False
        self._late = 0
        self._previous: dict[signal.Signals, object] = {}
        self._held_back = STEP_WIDE if _in_slurm_step(os.environ if environ is None else environ) else ()

    def install(self) -> None:
        """Put the handlers in place; call right before the child is started."""
        for number in (*ADDRESSED, *TERMINAL):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._received)

    def child_started(self, pid: int) -> None:
        """From here on signals go to `pid`; those that came before it existed are handed over now."""
        self._pid = pid
        while self._early:
            self._send(self._early.pop(0))

    def child_ended(self) -> None:
        """The child is reaped: a few more signals are swallowed so that the run's last records get written."""
        self._pid = None
        self._ended = True

    def restore(self) -> None:
        """Put back what `install` found."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if self._ended:
            self._late += 1
            if self._late > _PATIENCE:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        elif self._pid is None:
            self._early.append(number)
        elif number in TERMINAL:
            if not in_terminal_foreground():
                self._send(number)
        elif number not in self._held_back:
            self._send(number)

    def _send(self, number: int) -> None:
        if self._pid is None:
            return
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:  # it ended in this very moment
            pass
        except PermissionError:  # a setuid program: bare, the sender could not have signalled it either
            pass


def in_terminal_foreground() -> bool:
    """True when a Ctrl-C on the controlling terminal reaches this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # no controlling terminal
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # the terminal hung up
        return False
    finally:
        os.close(terminal)


def _in_slurm_step(environ: Mapping[str, str]) -> bool:
    try:
        return int(environ["SLURM_STEP_ID"]) < _SLURM_SPECIAL_STEPS
    except (KeyError, ValueError):
        return False
