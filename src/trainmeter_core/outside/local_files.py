"""For a run without a tracker: the same series, written to the run directory by whichever adapter can."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.plugins import managers
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import LOCAL_TRACKER_DIRECTORY
from trainmeter_core.series import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from trainmeter_core.hookspecs import LocalWriter
    from trainmeter_core.plugins import FoundPlugin

# Without a tracker by this time after the first row, the series go to files.
_TRACKER_GRACE_S = 3.0

# Rows that may wait for that.
_MOST_HELD = 20000

# The time between two rows is this part of the run so far: an hour has one every second, a day one every 24.
_EACH_AS_LONG = 3600

Held = tuple[int, float, "Mapping[str, float]"]
"""An optimizer step, a time in seconds since the epoch, and numbers by name."""


class LocalFiles:
    """Holds rows until it is clear that the run has no tracker, then writes them and all that follow."""

    def __init__(self, run_directory: Path, plugins: Sequence[FoundPlugin]) -> None:
        self.directory = os.path.join(run_directory, LOCAL_TRACKER_DIRECTORY)
        self._plugins = plugins
        self._writer: LocalWriter | None = None
        self.missing = ""
        """What an adapter that could have written files lacks."""
        self._wanted = True
        self._held: list[Held] = []
        self._first_at: float | None = None
        self._next_at = 0.0

    @property
    def wanted(self) -> bool:
        """Whether no tracker of the run's own is known."""
        return self._wanted

    @property
    def command(self) -> str | None:
        """How to open what was written; None when nothing was."""
        return self._writer.command if self._writer is not None else None

    def not_needed(self) -> None:
        """The run has a tracker of its own."""
        self._wanted = False
        self.missing = ""
        self._held.clear()

    def hold(self, row: Mapping[str, float], wall_time: float) -> None:
        """Take a row of series; of a long run fewer and fewer, so that the files stay small."""
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now if self._first_at is None else now + (now - self._first_at) / _EACH_AS_LONG
            self.hold_all([(int(row[PREFIX + "step"]), wall_time, row)])

    def hold_all(self, rows: Iterable[Held]) -> None:
        """Take rows at steps of the user's own."""
        if not self._wanted:
            return
        if self._first_at is None:
            self._first_at = time.monotonic()
        self._held.extend(row for row, _ in zip(rows, range(_MOST_HELD - len(self._held)), strict=False))

    def write(self, *, at_the_end: bool = False) -> bool:
        """Write what is held, once the grace for a tracker is over; True when this opened the files."""
        if not self._held or self._first_at is None:
            return False
        if not at_the_end and time.monotonic() - self._first_at < _TRACKER_GRACE_S:
            return False
        opened = self._writer is None and self._open()
        held, self._held = self._held, []
        if self._writer is not None:
            for step, wall_time, numbers in held:
                self._writer.write(numbers, step, wall_time)
        return opened

    def close(self, passport_markdown: str, passport: Mapping[str, Any]) -> None:
        """Add the passport and close."""
        if self._writer is not None:
            self._writer.close(passport_markdown, passport)

    def _open(self) -> bool:
        for _, manager in managers(self._plugins):
            opened = manager.hook.open_local(directory=self.directory)
            if isinstance(opened, Absent):
                self.missing = self.missing or opened.reason
            elif opened is not None:
                self._writer = opened
                return True
        # No adapter here can write files; the run log has everything all the same.
        self._wanted = False
        return False
