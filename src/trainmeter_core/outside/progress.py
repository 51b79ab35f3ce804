"""`--progress`: one live line on the terminal, for a program that does not write there itself."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from trainmeter_core.series import PREFIX

from .summary import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLEAR = "\r\x1b[K"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400

NOT_SILENT = (
    "no progress line: the program itself may write to this terminal. Send its output to a file: "
    "tm --progress … > train.log 2>&1"
)


def line_of(row: Mapping[str, float]) -> str:
    """Say where a run stands: step, share of the budget, speed, MFU, time left; what is not known is left out."""

    def known(name: str) -> float | None:
        return row.get(PREFIX + name)

    said = [f"step {int(known('step') or 0):,}"]
    share, speed, samples, mfu = known("progress_pct"), known("tokens_per_s"), known("samples_per_s"), known("mfu_pct")
    if share is not None:
        said.append(f"{share:.1f} %")
    if speed is not None:
        said.append(f"{scaled(speed).strip()} tokens/s")
    elif samples is not None:
        said.append(f"{scaled(samples).strip()} samples/s")
    if mfu is not None:
        said.append(f"MFU {mfu:.1f} %")
    left, spread = known("eta_s"), known("eta_plus_minus_s")
    if left is not None:
        said.append(f"{duration(left)}{'' if spread is None else ' ± ' + duration(spread)} left")
    return "tm: " + " · ".join(said)


def duration(seconds: float) -> str:
    """Write a time with its two largest units: 3 d 4 h, 1 h 5 min, 2 min 10 s, 9 s."""
    whole = round(seconds)
    for size, unit, below, inner in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {inner}" if rest else "")
    return f"{whole} s"


class ProgressLine:
    """The line, drawn over itself; only while tm is in the terminal's foreground."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._drawn = False

    @classmethod
    def on_terminal(cls) -> ProgressLine | None:
        """Take the controlling terminal; None where there is none, or where the program's output goes to one."""
        if os.isatty(1) or os.isatty(2):
            return None
        try:
            return cls(os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError:
            # No controlling terminal: a batch job, a service.
            return None

    def show(self, row: Mapping[str, float]) -> None:
        """Draw the newest row."""
        width = shutil.get_terminal_size().columns
        with contextlib.suppress(OSError):  # a terminal that does not tell its size
            width = os.get_terminal_size(self._terminal).columns or width
        self._write(_CLEAR + line_of(row)[: max(1, width - 1)])
        self._drawn = True

    def close(self) -> None:
        """Take the line away and let go of the terminal."""
        if self._drawn:
            self._write(_CLEAR)
        os.close(self._terminal)

    def _write(self, text: str) -> None:
        try:
            if os.tcgetpgrp(self._terminal) == os.getpgrp():
                os.write(self._terminal, text.encode())
        except OSError:
            # Stopped output (Ctrl-S), or a terminal that is gone.
            return
