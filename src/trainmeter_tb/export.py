"""Writes a finished run as one event file, whole or not at all; repeated, it replaces the file with an equal one."""

from __future__ import annotations

import json
import os
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
from .records import framed

if TYPE_CHECKING:
    from typing import BinaryIO


def export(passport: Mapping[str, Any], rows: Iterable[Any], target: Mapping[str, str]) -> str:
    """Write rows of (step, time, series) and the passport to a log directory; give the command that opens it.

    `target` may name the directory as ``directory``. Raises ValueError without tensorboard.
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
    temporary = os.path.join(directory, "." + run_id + ".partial")
    try:
        with open(temporary, "wb") as file:
            _write(file, event_pb2.Event, layout_pb2.Layout, passport, rows)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return open_command(directory)


def _write(file: BinaryIO, event_type: Any, layout_type: Any, passport: Mapping[str, Any], rows: Iterable[Any]) -> None:
    from trainmeter_core.passport.markdown import render

    step, at = 0, 0.0
    for step, at, series in rows:
        if not file.tell():
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
