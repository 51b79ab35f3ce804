"""What a program itself logged to offline runs, key by key: `tm selftest` compares it without and with tm."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from typing import Any, Mapping

from trainmeter_core.hookspecs import UsersData
from trainmeter_core.series import PREFIX

from .summary import CONFIG_KEY
from .transaction_log import records

_CLOCKS = ("_timestamp", "_runtime", "_step", "_wandb")
_CLIENTS_OWN = (
    "wandb-metadata.json",
    "wandb-summary.json",
    "config.yaml",
    "output.log",
    "requirements.txt",
    "conda-environment.yaml",
)
# The passport, and the tables of our panels, which the client names after the run and their keys.
_OUR_ARTIFACT = re.compile(r"trainmeter-passport-|run-[^-]+-trainmeter")
_RUN_TABLE = re.compile(r"run-[^-]+-(.*)")
_OFFLINE = ("offline", "disabled", "dryrun")


def kept_apart(directory: str, base: Mapping[str, str]) -> dict[str, str]:
    """The mode that asks no server; a folder for runs is replaced where it lies outside of the working directory."""
    told = {} if base.get("WANDB_MODE") in _OFFLINE else {"WANDB_MODE": "offline"}
    if os.path.isabs(base.get("WANDB_DIR", "")):
        told["WANDB_DIR"] = directory
    return told


def users_data(directory: str) -> list[UsersData]:
    """Each run whose .wandb file lies below `directory`, in the order in which they were begun."""
    paths = sorted(glob.glob(os.path.join(glob.escape(directory), "**", "run-*.wandb"), recursive=True))
    found: list[tuple[float, str, dict[str, Any]]] = []
    for path in paths:
        if os.path.islink(os.path.dirname(path)):  # latest-run
            continue
        try:
            began, content = _content(path)
        except (ImportError, ValueError):  # tm without the client; a file that is none
            continue
        found.append((began, path, content))
    return [
        UsersData(f"W&B run {number}", (_folder(path, directory),), content)
        for number, (_, path, content) in enumerate(sorted(found, key=lambda each: each[:2]), 1)
    ]


def _folder(path: str, directory: str) -> str:
    """What the client made: its folder of runs with the links and logs beside them, or the run's alone."""
    run = os.path.dirname(path)
    runs = os.path.dirname(run)
    return os.path.relpath(runs if os.path.basename(runs) == "wandb" else run, directory)


def _content(path: str) -> tuple[float, dict[str, Any]]:
    began, content = 0.0, {}
    summary: dict[str, str] = {}
    for record in records(path):
        kind = record.WhichOneof("record_type")
        told: Any = getattr(record, kind) if kind else None
        if kind == "run":
            began = told.start_time.seconds + told.start_time.nanos / 1e9
            content.update(
                {f"run.{name}": getattr(told, name) for name in ("project", "entity", "run_group", "job_type")}
            )
            content["run.tags"] = list(told.tags)
            _put_all(content, "config.", told.config.update)
        elif kind == "config":
            _put_all(content, "config.", told.update)
        elif kind == "summary":
            _put_all(summary, "summary.", told.update)
        elif kind == "history":
            _add_row(content, told)
        elif kind == "metric" and not (told.name or told.glob_name).startswith(PREFIX):
            content[f"metric.{told.name or told.glob_name}"] = _hash(told.SerializeToString(deterministic=True))
        elif kind == "artifact" and not _OUR_ARTIFACT.match(told.name):
            content.setdefault("artifacts", []).append(_RUN_TABLE.sub(r"run-#-\1", told.name))
        elif kind == "alert":
            content.setdefault("alerts", []).append((told.title, told.text, told.level))
        elif kind == "exit":
            content["exit code"] = told.exit_code
    content.update(summary)
    return began, {**content, **_files(os.path.join(os.path.dirname(path), "files"))}


def _put_all(content: dict[str, Any], prefix: str, items: Any) -> None:
    for item in items:
        name = ".".join(item.nested_key) or item.key
        if not _ours(name) and not name.startswith(_CLOCKS):
            content[prefix + name] = item.value_json


def _add_row(content: dict[str, Any], row: Any) -> None:
    """The user's values of one row, each with the row's step; a row of ours alone leaves nothing."""
    items = {".".join(item.nested_key) or item.key: item.value_json for item in row.item}
    step = items.get("_step", str(row.step.num))
    for name, value in items.items():
        if not _ours(name) and not name.startswith(_CLOCKS):
            content.setdefault(f"history.{name}", []).append((step, value))


def _ours(name: str) -> bool:
    return name.startswith(PREFIX) or name.partition(".")[0] == CONFIG_KEY


def _files(directory: str) -> dict[str, str]:
    """What the user saved in the run: media and files."""
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            relative = os.path.relpath(os.path.join(parent, name), directory)
            if relative in _CLIENTS_OWN or "trainmeter" in relative:
                continue
            try:
                with open(os.path.join(parent, name), "rb") as file:
                    found[f"file {relative}"] = _hash(file.read())
            except OSError:  # a link to what is gone
                found[f"file {relative}"] = "unreadable"
    return found


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
