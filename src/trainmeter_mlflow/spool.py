"""Rows that the tracking store did not take while the run lasted, in its run directory, one JSON line each."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any, Iterator, NamedTuple

from trainmeter_core.json_text import parse
from trainmeter_core.plain_files import opener
from trainmeter_core.runlog.format import PENDING

FILE = PENDING.format(tracker="mlflow")
_LOCK = FILE + ".lock"


class Parcel(NamedTuple):
    """One row.

    `panels` says that the run's panels have to be written, too, from the passport beside the file; `whole`, that the
    sums are those of the whole run and not of this process, where an earlier one had begun it.
    """

    tracking_uri: str
    run_id: str
    step: int
    timestamp: int
    values: dict[str, float]
    panels: bool
    whole: bool = True


def append(directory: str, parcels: list[Parcel]) -> None:
    """Add parcels to a run's file. Raises OSError when they cannot be written, a full disk among the reasons."""
    lines = "".join(json.dumps(parcel._asdict(), separators=(",", ":")) + "\n" for parcel in parcels)
    with locked(directory), open(os.path.join(directory, FILE), "a", encoding="utf-8", opener=opener) as file:
        file.write(lines)


def read(directory: str) -> list[Parcel]:
    """Give what waits, oldest first; lines that a full disk or a crash cut short are left out."""
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8", errors="replace", opener=opener) as file:
            found = [_parcel(line) for line in file]
    except FileNotFoundError:
        return []
    return [parcel for parcel in found if parcel is not None]


def replace(directory: str, parcels: list[Parcel]) -> None:
    """Write anew what still waits, at once; with none the file goes."""
    path = os.path.join(directory, FILE)
    if not parcels:
        os.unlink(path)
        return
    fresh = path + ".new"
    with open(fresh, "w", encoding="utf-8", opener=opener) as file:
        file.writelines(json.dumps(parcel._asdict(), separators=(",", ":")) + "\n" for parcel in parcels)
    os.replace(fresh, path)


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold a run's file against another process that delivers or appends."""
    descriptor = opener(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parcel(line: str) -> Any:
    try:
        told = parse(line)
        return Parcel(
            str(told["tracking_uri"]),
            str(told["run_id"]),
            int(told["step"]),
            int(told["timestamp"]),
            {str(name): float(value) for name, value in told["values"].items()},
            bool(told["panels"]),
            bool(told.get("whole", True)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        # Half a line, or one that is not ours.
        return None
