"""For a run without a tracker: the same series, written to the run directory by whichever adapter can."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trainmeter_core.plugins import managers
from trainmeter_core.runlog.format import LOCAL_TRACKER_DIRECTORY
from trainmeter_core.series import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trainmeter_core.hookspecs import LocalWriter
    from trainmeter_core.plugins import FoundPlugin


class LocalFiles:
    """Opens the writer at the first row. A run that has a tracker never gets here."""

    def __init__(self, run_directory: Path, plugins: Sequence[FoundPlugin]) -> None:
        self._directory = os.path.join(run_directory, LOCAL_TRACKER_DIRECTORY)
        self._plugins = plugins
        self._writer: LocalWriter | None = None
        self._refused = False
        self.reason = ""

    @property
    def command(self) -> str | None:
        """How to open what was written; None when nothing was."""
        return self._writer.command if self._writer is not None else None

    def write(self, row: Mapping[str, float], wall_time: float) -> bool:
        """Write one row; True when this was the one that opened the files."""
        opened = self._writer is None and self._open()
        if self._writer is not None:
            self._writer.write(row, int(row[PREFIX + "step"]), wall_time)
        return opened

    def close(self, passport_markdown: str) -> None:
        """Add the passport and close."""
        if self._writer is not None:
            self._writer.close(passport_markdown)

    def where(self, tracker: str, place: Mapping[str, str]) -> str | None:
        """Ask the adapters for the line that says where a tracked run can be seen."""
        for _, manager in managers(self._plugins):
            line: str | None = manager.hook.where(tracker=tracker, place=place)
            if line:
                return line
        return None

    def _open(self) -> bool:
        if self._refused:
            return False
        for _, manager in managers(self._plugins):
            self._writer = manager.hook.open_local(directory=self._directory)
            if self._writer is not None:
                return True
        self._refused = True
        self.reason = "no adapter can write files here; pip install 'trainmeter[tensorboard]'"
        return False
