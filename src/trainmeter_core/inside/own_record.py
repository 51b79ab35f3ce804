"""The run as this process alone knows it, for the passport that an adapter writes before the process ends."""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING

from ..json_text import parse
from ..passport.build import build
from ..plain_files import opener
from ..readings import Absent
from ..run_record import RunRecord
from ..runlog.apply import Application

_HEAD_BYTES = 1 << 18

# A program that starts so much later than tm is not the first that a launcher runs.
_LATE_S = 10.0

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any


def passport_so_far(run_directory: str, events: list[dict[str, Any]], started: float | None = None) -> dict[str, Any]:
    """Build the passport from run.json and log records that `tm` may not have carried over yet.

    `started` is when a part of the run began, in seconds since the epoch; without it that is the start of the run, or
    of this process where a launcher has started others before.
    """
    record = RunRecord()
    application = Application(record)
    about = _run_file(run_directory)
    if about is not None:
        application.about(about)
    known = record.identity.started
    for process in (event for event in events if event["type"] == "process"):
        if not isinstance(known, Absent) and process.get("started", known) > known + _LATE_S:
            record.identity.started = process["started"]
    if started is not None:
        record.identity.started = started
    for event in [*_hardware(run_directory), *events]:
        try:
            application.apply({"t": time(), **event})
            if event["type"] == "model" and event["description"].get("device") == "cpu":
                application.apply({"type": "hardware", "gpus": []})
        except (KeyError, TypeError, ValueError):
            # One event that does not fit costs only itself, as in a log.
            record.notes.junk_lines += 1
    application.close()
    return build(record)


def run_directory(agent: Agent) -> str:
    """Where `tm` keeps this process's run: the command's first, unless another training of the command came before."""
    try:
        with open(os.path.join(agent.spool, f"run-{agent.pid}"), encoding="utf-8", opener=opener) as file:
            return file.read()
    except OSError:
        # The usual case.
        return os.environ.get("TRAINMETER_RUN", "")


def _hardware(directory: str) -> list[dict[str, Any]]:
    """What `tm` found out about the node: it stands among the first lines of the log."""
    try:
        with open(os.path.join(directory, "log.jsonl"), "rb", opener=opener) as file:
            lines = file.read(_HEAD_BYTES).split(b"\n")[:-1]
        found = [parse(line) for line in lines if b'"hardware"' in line]
    except (OSError, ValueError):
        # As below, or a line that is no record.
        return []
    return [event for event in found if isinstance(event, dict) and event.get("type") == "hardware"]


def _run_file(directory: str) -> Any:
    try:
        with open(os.path.join(directory, "run.json"), "rb", opener=opener) as file:
            about = parse(file.read())
    except (OSError, ValueError):
        # The run directory could not be made, or lies on another node.
        return None
    return about if isinstance(about, dict) else None
