"""Writes a finished run as one event file, whole or not at all; repeated, it replaces the file with an equal one.

What was interrupted lies beside it under another name, and is gone on with.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from trainmeter_core.version import __version__

from . import panels
from .events import (
    LAYOUT_PLUGIN,
    LAYOUT_TAG,
    OWN_PLUGIN,
    PASSPORT_JSON_TAG,
    PASSPORT_TAG,
    TEXT_PLUGIN,
    VERSION_TAG,
    add_row,
    add_string,
)
from .records import RecordReader, framed

if TYPE_CHECKING:
    from typing import BinaryIO

# Before the rows stand two records; the last two of an interrupted file may be its last row and its end.
_BEFORE = 2
_AGAIN = 2


def export(passport: Mapping[str, Any], rows: Iterable[Any], target: Mapping[str, str]) -> str:
    """Write rows of (step, time, series) and the passport to a log directory; give the command that opens it.

    `target` may name the directory as ``directory``. Raises ValueError without tensorboard, and while another process
    writes the same file.
    """
    from .local import open_command

    try:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.plugins.custom_scalar import layout_pb2
    except ImportError:
        raise ValueError("tensorboard is not installed: pip install 'trainmeter[tensorboard]'") from None
    identity = passport["identity"]
    run_id = str(identity["run_id"] or "run")
    directory = os.path.join(target.get("directory") or "tb-" + run_id, target.get("run", ""))
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "events.out.tfevents.0000000000." + run_id + ".trainmeter")
    temporary = os.path.join(directory, f".{run_id}.{getattr(rows, 'key', '')[:12]}.partial")
    for other in glob.glob(os.path.join(glob.escape(directory), f".{glob.escape(run_id)}.*.partial")):
        if other != temporary:
            os.unlink(other)
    with open(temporary, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another export is writing {path}") from None
        file.seek(0)
        file.truncate(_kept(file, rows))
        _write(file, event_pb2.Event, layout_pb2.Layout, passport, rows)
        file.flush()
        os.replace(temporary, path)
    return open_command(directory)


def _kept(file: BinaryIO, rows: Any) -> int:
    """Skip the rows that the file holds already; give the size that it is gone on with from."""
    ends: deque[int] = deque([0], maxlen=_AGAIN + 1)
    reader = RecordReader(file)
    records = 0
    for _ in reader:
        records += 1
        ends.append(reader.read_to)
    count = records - _BEFORE - _AGAIN
    if count <= 0 or reader.corrupt or not hasattr(rows, "skip"):
        return 0
    rows.skip(count)
    return ends[0]


def _write(file: BinaryIO, event_type: Any, layout_type: Any, passport: Mapping[str, Any], rows: Iterable[Any]) -> None:
    from trainmeter_core.passport.markdown import render

    step, at = 0, 0.0
    fresh = not file.seek(0, os.SEEK_END)
    for step, at, series in rows:
        if fresh:
            fresh = False
            file.write(framed(event_type(wall_time=at, file_version="brain.Event:2").SerializeToString()))
            layout = event_type(wall_time=at)
            add_string(layout, LAYOUT_TAG, LAYOUT_PLUGIN, panels.merged_layout(layout_type, None))
            add_string(layout, VERSION_TAG, OWN_PLUGIN, __version__.encode())
            file.write(framed(layout.SerializeToString()))
        event = event_type(step=step, wall_time=at)
        add_row(event, series)
        file.write(framed(event.SerializeToString()))
    closing = event_type(step=step, wall_time=at)
    add_string(closing, PASSPORT_TAG, TEXT_PLUGIN, render(dict(passport)).encode("utf-8"))
    add_string(closing, PASSPORT_JSON_TAG, OWN_PLUGIN, json.dumps(passport, separators=(",", ":")).encode("utf-8"))
    file.write(framed(closing.SerializeToString()))
