"""The run as this process alone knows it, for the passport that an adapter writes before the process ends."""

from __future__ import annotations

import json
import os
from time import time

from ..passport.build import build
from ..run_record import RunRecord
from ..runlog.apply import Application

MYPY = False
if MYPY:
    from typing import Any, Dict, List


def passport_so_far(run_directory: str, events: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Build the passport from run.json and log records that `tm` may not have carried over yet."""
    record = RunRecord()
    application = Application(record)
    about = _run_file(run_directory)
    if about is not None:
        application.about(about)
    for event in events:
        try:
            application.apply({"t": time(), **event})
        except (KeyError, TypeError, ValueError):
            # One event that does not fit costs only itself, as in a log.
            record.notes.junk_lines += 1
    application.close()
    return build(record)


def _run_file(directory: str) -> Any:
    try:
        with open(os.path.join(directory, "run.json"), "rb") as file:
            about = json.loads(file.read())
    except (OSError, ValueError):
        # The run directory could not be made, or lies on another node.
        return None
    return about if isinstance(about, dict) else None
