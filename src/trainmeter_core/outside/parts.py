"""A file that is written in parts, each whole or not there: what was interrupted goes on after the last whole part."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .replay import Row, RunRows

ROWS_OF_A_PART = 4000


class Form(NamedTuple):
    """A file format: `part` writes some rows to a path, `join` makes the file of all parts, in their order."""

    part: Callable[[list[Row], Path, Mapping[str, str]], None]
    join: Callable[[list[Path], Path, Mapping[str, str]], None]


def write(form: Form, rows: RunRows, out: Path, labels: Mapping[str, str]) -> int:
    """Write the rows to `out`, and give their number; needs memory for one part.

    The parts lie in a folder beside `out` that goes at the end. It stays when this is interrupted: called with the same
    rows, labels and `out` it is gone on with, otherwise begun anew. Raises ValueError while another process does so.
    """
    name = hashlib.sha256(repr((rows.key, form.join.__name__, labels)).encode()).hexdigest()[:12]
    folder = out.with_name(f".{out.name}.{name}.partial")
    for other in out.parent.glob(f".{glob.escape(out.name)}.*.partial"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another export is writing {out}") from None
        try:
            count = _write_parts(form, rows, folder, labels)
            whole = folder / "whole"
            form.join(_parts(folder), whole, labels)
            whole.replace(out)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            if folder.is_dir() and not _parts(folder):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)
    return count


def _write_parts(form: Form, rows: RunRows, folder: Path, labels: Mapping[str, str]) -> int:
    done = _parts(folder)
    count = sum(_rows_in(part) for part in done)
    rows.skip(count)
    temporary = folder / "part"
    for number, batch in enumerate(_batches(rows), len(done)):
        form.part(batch, temporary, labels)
        temporary.replace(folder / f"{number:09d}-{len(batch)}")
        count += len(batch)
    return count


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*-*"))


def _rows_in(part: Path) -> int:
    return int(part.name.partition("-")[2])


def _batches(rows: RunRows) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_OF_A_PART:
            yield batch
            batch = []
    if batch:
        yield batch
