"""Reads a run back from W&B alone: an offline run's directory, a .wandb file, a run's URL or its path on the server."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING, Any

from trainmeter_core.json_text import parse
from trainmeter_core.passport import page, schema
from trainmeter_core.passport.restore import restore

from .reconstruct import record_of
from .seen import SeenRun
from .transaction_log import records

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord

SCHEME = "wandb:"

_URL = re.compile(r"^(https?://[^/]+)/([^/]+)/([^/]+)/runs/([^/?#]+)")
_PATH = re.compile(r"^([^/]+)/([^/]+)/([^/]+)$")


def open_run(ref: str, server: str | None = None) -> RunRecord | None:
    """Give the run that a reference names; None when it is not W&B's. Raises ValueError with one line.

    `server` is where a ``wandb:`` path lies, when it is not the client's own server; a URL says so itself.
    """
    path = local_file(ref)
    if path is not None:
        run = read_file(path)
        return _record(run, lambda name: _local_page(path, name))
    found = remote_path(ref)
    if found is None:
        return None
    from .remote import open_remote

    run, fetch = open_remote(found[0] or server, found[1])
    return _record(run, fetch)


def remote_path(ref: str) -> tuple[str | None, str] | None:
    """Give (server or None, entity/project/run) of ``wandb:E/P/R`` or of a run's URL; None for anything else.

    Raises ValueError for a path with a part missing.
    """
    url = _URL.match(ref)
    if url:
        return url.group(1), "/".join(url.groups()[1:])
    if not ref.startswith(SCHEME):
        return None
    path = ref[len(SCHEME) :]
    if not _PATH.match(path):
        raise ValueError(f"{ref!r} names no run: write wandb:ENTITY/PROJECT/RUN")
    return None, path


def local_file(ref: str) -> str | None:
    """Give the .wandb file that a path names: itself, or the one in a run's directory; None for anything else."""
    if os.path.isfile(ref):
        return ref if ref.endswith(".wandb") else None
    if not os.path.isdir(ref):
        return None
    found = sorted(glob.glob(os.path.join(glob.escape(ref), "run-*.wandb")))
    return found[0] if found else None


def read_file(path: str) -> SeenRun:
    """Read a .wandb file. Raises ValueError with one line when it is none, or when the client is not installed."""
    run = SeenRun()
    try:
        for record in records(path):
            kind = record.WhichOneof("record_type")
            take = _TAKES.get(kind)
            if take is not None:
                take(run, getattr(record, kind))
    except ImportError as error:
        raise ValueError(f"reading {path} needs the W&B client: pip install wandb ({error})") from error
    if not run.run_id:
        raise ValueError(f"{path} holds no run")
    run.config = {name: value for name, value in run.config.items() if not name.startswith("_")}
    return run


def _record(run: SeenRun, fetch: Any) -> RunRecord:
    """The run's own passport where it keeps one, else what can be told from its series."""
    text = fetch(run.page) if run.page else None
    if text:
        try:
            passport = page.passport_in(text)
        except ValueError:  # an upload cut short
            passport = {}
        if passport and not schema.problems(passport):
            return restore(passport)
    return record_of(run)


def _local_page(path: str, name: str) -> str | None:
    try:
        with open(os.path.join(os.path.dirname(path), "files", name), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):  # the .wandb file was copied away without its files
        return None


def _take_run(run: SeenRun, told: Any) -> None:
    run.run_id, run.entity, run.project, run.name = told.run_id, told.entity, told.project, told.display_name
    if told.start_time.seconds:
        run.started = told.start_time.seconds + told.start_time.nanos / 1e9
    _take_config(run, told.config)


def _take_config(run: SeenRun, told: Any) -> None:
    for item in told.update:
        _put(run.config, item)


def _take_summary(run: SeenRun, told: Any) -> None:
    for item in told.update:
        _put(run.summary, item)


def _take_history(run: SeenRun, told: Any) -> None:
    row: dict[str, Any] = {}
    for item in told.item:
        _put(row, item)
    run.add_row(row)


def _take_stats(run: SeenRun, told: Any) -> None:
    run.add_system({item.key: _json(item.value_json) for item in told.item})


def _take_environment(run: SeenRun, told: Any) -> None:
    meta = run.metadata
    names = {"program": "program", "code_path": "codePath", "python": "python", "cuda_version": "cudaVersion"}
    for name, key in names.items():
        if getattr(told, name, ""):
            meta[key] = getattr(told, name)
    for name in ("cpu_count", "gpu_count"):
        if getattr(told, name, 0):
            meta[name] = getattr(told, name)
    if getattr(told, "gpu_nvidia", ()):
        meta["gpu_nvidia"] = [{"name": gpu.name, "uuid": getattr(gpu, "uuid", "")} for gpu in told.gpu_nvidia]
    if getattr(told.memory, "total", 0):
        meta["memory"] = {"total": told.memory.total}
    if told.git.commit:
        meta["git"] = {"commit": told.git.commit}


def _take_exit(run: SeenRun, told: Any) -> None:
    run.exit_code = told.exit_code


_TAKES = {
    "run": _take_run,
    "config": _take_config,
    "summary": _take_summary,
    "history": _take_history,
    "stats": _take_stats,
    "environment": _take_environment,
    "exit": _take_exit,
}


def _put(row: dict[str, Any], item: Any) -> None:
    keys = list(item.nested_key) or [item.key]
    for key in keys[:-1]:
        inner = row.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        row = inner
    row[keys[-1]] = _value(item)


def _value(item: Any) -> Any:
    """The item's value: JSON text, or one of the typed fields that newer clients may write."""
    if item.value_json:
        return _json(item.value_json)
    for name in ("number", "integer", "text", "boolean", "json"):
        try:
            if item.HasField(name):
                value = getattr(item, name)
                return _json(value) if name == "json" else value
        except ValueError:  # a client that does not have the field
            continue
    return None


def _json(text: Any) -> Any:
    try:
        return parse(text)
    except (TypeError, ValueError):
        return None
