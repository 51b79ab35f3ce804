"""Reads a run directory into a RunRecord, line by line; a torn tail, junk lines and unknown records are counted."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmeter_core.json_text import parse
from trainmeter_core.plain_files import opener
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RunRecord

from . import snapshot
from .apply import Application
from .format import LOG_FILE, RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LONGEST_LINE = 16 << 20
# So much log takes a quarter of a second to read: what a reader has read without a snapshot, the next one need not.
_LONG = 8 << 20


def read_run(directory: str | os.PathLike[str]) -> RunRecord:
    """Everything the directory tells of its run, also while it still goes on; needs memory for one line at a time.

    Where a long part of the log was in no snapshot (its `tm` was of another version, or could not write one), one is
    left for the next reader, in a directory of the reader's own. Raises FileNotFoundError when the directory has
    neither run.json nor a log.
    """
    reader = RunReader(directory)
    if reader.behind() > _LONG:
        reader.read_on()
        reader.save_if_ours()
    return reader.finish()


class RunReader:
    """Reads a run as it grows: `read_on` takes what is new, `save` leaves a snapshot, `finish` gives the record.

    It begins at the snapshot, where one fits, and anew where the log was merged meanwhile. Raises FileNotFoundError as
    `read_run` does.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.root = Path(directory)
        self._nodes = [log for log in sorted(self.root.glob(f"node*/{LOG_FILE}")) if log.is_file()]
        self._about = _run_file(self.root / RUN_FILE)
        if self._about is None and not self._nodes and not (self.root / LOG_FILE).is_file():
            raise FileNotFoundError(f"{self.root} is not a run directory: it has no {RUN_FILE}")
        self._begin()

    def _begin(self) -> None:
        self._application = Application(RunRecord())
        self._log = _file_of(self.root / LOG_FILE)
        self._offset = snapshot.load(self.root, self._application)
        if self._offset:
            return
        if isinstance(self._about, dict):
            self._application.about(self._about)
        elif self._about is not None:
            self._application.record.identity.run_id = self._about

    def read_on(self, torn: bool = False) -> None:
        """Apply the whole lines that are new; with `torn` also half a line at the end."""
        try:
            with open(self.root / LOG_FILE, "rb", opener=opener) as file:
                about = os.fstat(file.fileno())
                if (about.st_dev, about.st_ino) != self._log or about.st_size < self._offset:
                    self._begin()
                for line, end in lines_of(file, self._offset):
                    if line is None or line.endswith(b"\n") or torn:
                        _apply_line(self._application, line)
                        self._offset = end
        except FileNotFoundError:  # a directory with run.json alone
            return

    def merged(self) -> None:
        """What was read of the log stands there in fewer lines now: go on at their end."""
        self._log = _file_of(self.root / LOG_FILE)
        self._offset = (self.root / LOG_FILE).stat().st_size

    def behind(self) -> int:
        """Bytes of log that are not read yet."""
        try:
            return (self.root / LOG_FILE).stat().st_size - self._offset
        except FileNotFoundError:  # as in read_on
            return 0

    def save(self) -> None:
        """Leave a snapshot for the next reader. Raises OSError."""
        snapshot.save(self.root, self._application, self._offset)

    def save_if_ours(self) -> None:
        """Leave a snapshot in a directory of our own; another user's stays as it is."""
        try:
            if self.root.stat().st_uid == os.geteuid():
                self.save()
        except OSError:  # a full disk, a file system that is read only: the next reader takes as long
            return

    def finish(self) -> RunRecord:
        """The record of everything that is there now; nothing can be read on afterwards."""
        self.read_on(torn=True)
        for log in self._nodes:
            for line, _ in lines(log):
                _apply_line(self._application, line)
        self._application.close()
        return self._application.record


def _run_file(path: Path) -> dict[str, Any] | Absent | None:
    try:
        with open(path, "rb", opener=opener) as file:
            value = parse_line(file.read())
    except FileNotFoundError:
        return None
    except ValueError:  # a copy cut short: the file itself is written atomically
        return Absent("run.json cannot be read")
    return value if isinstance(value, dict) else Absent("run.json holds no object")


def _apply_line(application: Application, line: bytes | None) -> None:
    notes = application.record.notes
    notes.lines += 1
    if line is None:
        notes.junk_lines += 1
        return
    if not line.endswith(b"\n"):
        notes.torn_tail = True
    try:
        value = parse_line(line)
        if not isinstance(value, dict):
            raise TypeError("not an object")  # noqa: TRY301  one place counts junk
        known = application.apply(value)
    except (ValueError, TypeError, LookupError):  # not JSON, a field missing, or a field of another type
        if line.endswith(b"\n"):
            notes.junk_lines += 1
        return
    notes.unknown_records += not known


def lines(path: Path, start: int = 0) -> Iterator[tuple[bytes | None, int]]:
    """The lines of a log from a byte on, each with the byte it ends at.

    None stands for a line longer than LONGEST_LINE, which is skipped without being held.
    """
    with open(path, "rb", opener=opener) as file:
        yield from lines_of(file, start)


def lines_of(file: BinaryIO, start: int = 0) -> Iterator[tuple[bytes | None, int]]:
    """The lines of an open log, as `lines` gives them."""
    end = start
    file.seek(start)
    while line := file.readline(LONGEST_LINE):
        end += len(line)
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line, end
            continue
        while rest := file.readline(LONGEST_LINE):
            end += len(rest)
            if rest.endswith(b"\n"):
                break
        yield None, end


def _file_of(path: Path) -> tuple[int, int] | None:
    """Which file stands there by now: a log that is merged becomes another one."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
# Only a number such as this can be too large for a float; all others take the fast way.
_LARGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{309}")


def parse_line(data: bytes) -> Any:
    """The value of a line. Raises ValueError for what is no JSON, or holds a number that is none for us."""
    if _LARGE.search(data):
        return parse(data, finite=True)
    try:
        return _DECODER.decode(data.decode())
    except RecursionError as error:  # thousands of brackets
        raise ValueError("nested too deeply") from error
