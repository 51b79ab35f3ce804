"""Keeps a log within a bound however long the run: what is older stands in coarser windows, and adds up to the same.

Where the log passes MOST_BYTES it is merged into windows of FIRST_S seconds, by a thread, into a file beside it, which
then takes its place; what was written meanwhile is carried over. Where more than half of the bound is left after that,
the windows are doubled until it is not. Killed at any moment, one of the two files stands there whole.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from trainmeter_core.plain_files import opener

from .coarser import Coarser
from .format import LOG_FILE, NEW_LOG_FILE
from .read import lines
from .write import line_of

if TYPE_CHECKING:
    from pathlib import Path

    from .write import RunWriter

MOST_BYTES = 64 << 20
FIRST_S = 10.0
# A day in a line: what is still too much then cannot be merged, and the bound gives way.
_LAST_S = 86400.0
_PIECE = 1 << 20


class LogBound:
    """The bound of one writer's log. Only the thread that writes the log may call it."""

    def __init__(self, writer: RunWriter, most_bytes: int = MOST_BYTES) -> None:
        self._writer = writer
        self._most = self._due = most_bytes
        self.every_s = FIRST_S
        """The width of the windows that the log was merged into last, or will be."""
        self._merging: _Merging | None = None

    @property
    def merging(self) -> bool:
        """Whether that goes on, or waits for `take`."""
        return self._merging is not None

    def ready(self) -> bool:
        """Begin to merge where that is due; True when a merged log waits for `take`."""
        if self._merging is None:
            if self._writer.size <= self._due or self._writer.problem is not None:
                return False
            self._merging = _Merging(self._writer.directory, self._writer.size, self.every_s)
        return not self._merging.is_alive()

    def take(self) -> bool:
        """Let the merged log take the log's place; False where it could not be written: the log goes on as it is."""
        merging, self._merging = self._merging, None
        if merging is None:
            return False
        try:
            self._writer.replace(merging.result(), merging.upto)
        except OSError:
            # A full disk, no descriptors left: again when the log has grown by half of its bound.
            merging.cancel()
            self._due = self._writer.size + self._most // 2
            return False
        self._due = self._most
        if self._writer.size > self._most // 2:
            self.every_s *= 2
            self._due = 0
        if self.every_s > _LAST_S:
            self._most = self._due = 2 * self._writer.size
            self.every_s = FIRST_S
        return True

    def close(self) -> None:
        """Leave off; the log stays as it is."""
        if self._merging is not None:
            self._merging.cancel()
            self._merging = None


class _Merging(threading.Thread):
    """Writes the first `upto` bytes of a log anew, coarser."""

    def __init__(self, directory: Path, upto: int, every_s: float) -> None:
        super().__init__(name="trainmeter-merging", daemon=True)
        self.upto = upto
        self._directory, self._every_s = directory, every_s
        self._cancelled = False
        self._log = -1
        self._problem: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
            self._log = opener(self._directory / NEW_LOG_FILE, flags)
            self._write()
            os.fsync(self._log)
        except Exception as error:  # noqa: BLE001 - a full disk, a directory that is gone; a thread prints what it raises
            self._problem = error
        if self._cancelled or self._problem is not None:
            self._close()
            self._remove()

    def _write(self) -> None:
        coarser = Coarser(self._every_s)
        waiting = bytearray()
        for line, end in lines(self._directory / LOG_FILE):
            if self._cancelled or end > self.upto:
                break
            for given in coarser.take(line):
                waiting += given if isinstance(given, bytes) else line_of(given)
            if len(waiting) > _PIECE:
                waiting = self._put(waiting)
        for given in coarser.close():
            waiting += line_of(given)
        self._put(waiting)

    def _put(self, data: bytearray) -> bytearray:
        while data:
            del data[: os.write(self._log, data)]
        return data

    def result(self) -> int:
        """The descriptor of the merged log. Raises OSError where it could not be written."""
        if self._problem is not None:
            raise OSError(str(self._problem)) from self._problem
        return self._log

    def cancel(self) -> None:
        """Leave no file behind."""
        self._cancelled = True
        if not self.is_alive():
            self._close()
        self._remove()

    def _remove(self) -> None:
        try:
            (self._directory / NEW_LOG_FILE).unlink(missing_ok=True)
        except OSError:
            # Not ours any more: who reopens the log tries again.
            return

    def _close(self) -> None:
        log, self._log = self._log, -1
        if log >= 0:
            os.close(log)
