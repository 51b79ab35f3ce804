"""Reads a run directory into a RunRecord, line by line; a torn tail, junk lines and unknown records are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RunRecord

from .apply import Application
from .format import LOG_FILE, RUN_FILE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

LONGEST_LINE = 16 << 20


def read_run(directory: str | os.PathLike[str]) -> RunRecord:
    """Everything the directory tells of its run, also while it still goes on; needs memory for one line at a time.

    Raises FileNotFoundError when the directory has neither run.json nor a log.
    """
    root = Path(directory)
    record = RunRecord()
    application = Application(record)
    logs = [log for log in (root / LOG_FILE, *sorted(root.glob(f"node*/{LOG_FILE}"))) if log.is_file()]
    about = _run_file(root / RUN_FILE)
    if about is None and not logs:
        raise FileNotFoundError(f"{root} is not a run directory: it has no {RUN_FILE}")
    if isinstance(about, dict):
        application.about(about)
    elif about is not None:
        record.identity.run_id = about
    for log in logs:
        for line in lines(log):
            _apply_line(application, line)
    application.close()
    return record


def _run_file(path: Path) -> dict[str, Any] | Absent | None:
    try:
        value = _parse(path.read_bytes())
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
        value = _parse(line)
        if not isinstance(value, dict):
            raise TypeError("not an object")  # noqa: TRY301  one place counts junk
        known = application.apply(value)
    except (ValueError, TypeError, KeyError):  # not JSON, a field missing, or a field of another type
        if line.endswith(b"\n"):
            notes.junk_lines += 1
        return
    notes.unknown_records += not known


def lines(path: Path) -> Iterator[bytes | None]:
    """The lines of a log; None for one longer than LONGEST_LINE, which is skipped without being held."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            if len(line) < LONGEST_LINE or line.endswith(b"\n"):
                yield line
                continue
            while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            yield None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _parse(data: bytes) -> Any:
    try:
        return _DECODER.decode(data.decode())
    except RecursionError as error:  # thousands of brackets
        raise ValueError("nested too deeply") from error
