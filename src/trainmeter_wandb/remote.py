"""Reads a run from the server through the client's public API; only ever in tm's own process."""

from __future__ import annotations

import calendar
import tempfile
import time
from typing import Any, Callable

from .seen import SeenRun

_METADATA = "wandb-metadata.json"
_PAGE_SIZE = 1000

Fetch = Callable[[str], "str | None"]


def open_remote(server: str | None, path: str) -> tuple[SeenRun, Fetch]:
    """Give a run and a function that reads one of its files. Raises ValueError with one line when it cannot be read."""
    try:
        import wandb
    except ImportError as error:
        raise ValueError(f"reading {path} needs the W&B client: pip install wandb") from error
    overrides = {} if server is None or server == "https://wandb.ai" else {"base_url": server}
    try:
        found = wandb.Api(overrides=overrides).run(path)
        run = _read(found)
    except Exception as error:  # the client raises its own errors, requests' and its core's
        raise ValueError(f"{path} cannot be read: {_one_line(error)}") from error
    return run, lambda name: _file(found, name)


def _read(found: Any) -> SeenRun:
    run = SeenRun(run_id=found.id, name=found.name or "", entity=found.entity, project=found.project)
    run.config = {name: value for name, value in dict(found.config).items() if not name.startswith("_")}
    run.summary = dict(found.summary)
    run.started = _epoch(found.created_at)
    if found.state in ("finished", "crashed", "failed"):
        run.exit_code = 0 if found.state == "finished" else None
    run.metadata = _metadata(found)
    for row in found.scan_history(page_size=_PAGE_SIZE):
        run.add_row(row)
    for sample in found.history(stream="system", pandas=False):
        run.add_system(sample)
    return run


def _metadata(found: Any) -> dict[str, Any]:
    import json

    text = _file(found, _METADATA)
    try:
        told = json.loads(text) if text else {}
    except ValueError:  # cut short
        told = {}
    return told if isinstance(told, dict) else {}


def _file(found: Any, name: str) -> str | None:
    """The text of one of a run's files; None where the run has none of this name."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            with found.file(name).download(root=directory, replace=True) as file:
                text: str = file.read()
        except Exception:  # noqa: BLE001 - a missing file is the client's own error, a broken one requests'
            return None
    return text


def _epoch(text: Any) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(str(text)[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
