"""Rare events of one training process as JSON lines, appended one write each; `tm` carries them into the run log."""

from __future__ import annotations

import json
import os
from time import time

from ..plain_files import opener

MYPY = False
if MYPY:
    from typing import Any

# A line above this is dropped: an event is a fact, not a dump.
MAX_LINE = 4 << 20


class SideFile:
    """Exists from the first event on; after an OSError it stays silent, and `reason` says why."""

    __slots__ = ("path", "reason")

    def __init__(self, path: str) -> None:
        self.path = path
        self.reason = ""

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        """Append one event of this kind; fields that JSON does not know are written as text."""
        if self.reason:
            return
        line = json.dumps({"type": kind, "t": time(), **fields}, default=str, separators=(",", ":")).encode()
        if len(line) > MAX_LINE:
            why = "an event " + kind + " of " + str(len(line)) + " bytes was dropped"
            line = json.dumps({"type": "failure", "t": time(), "site": "side file", "count": 1, "first": why}).encode()
        try:
            # Opened anew for each event: a program that closes descriptors by number may be given ours for its file.
            descriptor = opener(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            try:
                os.write(descriptor, line + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            # Disk full, directory gone, no descriptors left: the training goes on without this file.
            self.reason = str(error)
