"""Writes a run that has no tracker into event files, in tm's own process.

Only the event proto is imported (about 7 MB of memory). tensorboard's own writer would take 35 MB with numpy, and load
all of TensorFlow where that is installed.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from typing import Any, Mapping

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

_FLUSH_EVERY_S = 1.0


def open_command(logdir: str) -> str:
    """Give the shell command that shows a directory of event files."""
    return "tensorboard --logdir " + shlex.quote(logdir)


class LocalEvents:
    """An event file in a directory; implements `hookspecs.LocalWriter`. Not for several threads.

    Raises ImportError when tensorboard is not installed, OSError when the directory cannot be written.
    """

    def __init__(self, directory: str) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.plugins.custom_scalar import layout_pb2

        self._event = event_pb2.Event
        self._layout = layout_pb2.Layout
        self.command = open_command(directory)
        self._step = 0
        self._flushed = 0.0
        os.makedirs(directory, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.trainmeter"
        self._file = open(os.path.join(directory, name), "ab")  # noqa: SIM115 - closed by close()
        self._append(self._event(wall_time=now, file_version="brain.Event:2"))
        self._add_string(LAYOUT_TAG, LAYOUT_PLUGIN, panels.merged_layout(self._layout, None))
        self._add_string(VERSION_TAG, OWN_PLUGIN, __version__.encode())
        self._file.flush()

    def write(self, row: Mapping[str, float], step: int, wall_time: float) -> None:
        """Write one row of series at an optimizer step, at a time in seconds since the epoch."""
        event = self._event(step=step, wall_time=wall_time)
        add_row(event, row)
        self._append(event)
        self._step = step
        if time.monotonic() - self._flushed >= _FLUSH_EVERY_S:
            self._file.flush()
            self._flushed = time.monotonic()

    def flush(self) -> None:
        """Bring everything to the file."""
        self._file.flush()

    def close(self, passport_markdown: str | None, passport: Mapping[str, Any] | None = None) -> None:
        """Write the passport, for reading and as an object, flush and close; closing again does nothing."""
        if self._file.closed:
            return
        if passport_markdown:
            self._add_string(PASSPORT_TAG, TEXT_PLUGIN, passport_markdown.encode("utf-8"))
        if passport:
            text = json.dumps(passport, separators=(",", ":"), allow_nan=False)
            self._add_string(PASSPORT_JSON_TAG, OWN_PLUGIN, text.encode("utf-8"))
        self._file.close()

    def _add_string(self, tag: str, plugin: str, content: bytes) -> None:
        event = self._event(step=self._step, wall_time=time.time())
        add_string(event, tag, plugin, content)
        self._append(event)

    def _append(self, event: Any) -> None:
        self._file.write(framed(event.SerializeToString()))
