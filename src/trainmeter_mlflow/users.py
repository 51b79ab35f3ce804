"""What a program itself logged to a database or folder of MLflow's: `tm selftest` compares it without and with tm.

Both are read as they lie on the disk, so that neither MLflow nor its migrations are needed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from typing import Any, Iterator, Mapping
from urllib.parse import quote

from trainmeter_core.hookspecs import UsersData
from trainmeter_core.series import PREFIX

from .panels import without_note
from .run_page import FOLDER, NOTE_TAG

_MAGIC = b"SQLite format 3\0"
_BESIDE = ("", "-wal", "-shm", "-journal")
_REMOTE = ("http://", "https://", "databricks", "postgresql", "mysql", "mssql")


def kept_apart(directory: str, base: Mapping[str, str]) -> dict[str, str]:
    """A database here in place of a server."""
    if base.get("MLFLOW_TRACKING_URI", "").startswith(_REMOTE):
        return {"MLFLOW_TRACKING_URI": f"sqlite:///{directory}/mlflow.db"}
    return {}


def users_data(directory: str) -> list[UsersData]:
    """Each run of each store below `directory`, in the order in which they were begun."""
    stores: list[tuple[float, dict[str, Any], tuple[str, ...]]] = []
    for parent, inner, names in os.walk(directory):
        for name in sorted(names):
            path = os.path.join(parent, name)
            if name.endswith((".db", ".sqlite", ".sqlite3")) and _is_database(path):
                here = tuple(os.path.relpath(path + end, directory) for end in _BESIDE)
                stores += [
                    (began, content, (*here, *_artifacts(directory, run, content)))
                    for began, run, content in _database(path)
                ]
        if "meta.yaml" in names and {"metrics", "params", "tags"} <= set(inner):
            began, content = _folder(parent)
            _artifacts(directory, os.path.basename(parent), content)
            stores.append(
                (
                    began,
                    content,
                    (
                        os.path.relpath(parent, directory),
                        os.path.relpath(os.path.dirname(parent), directory) + "/meta.yaml",
                    ),
                )
            )
            inner.clear()
    stores.sort(key=lambda each: each[0])
    return [UsersData(f"MLflow run {number}", files, content) for number, (_, content, files) in enumerate(stores, 1)]


def _is_database(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:  # gone, or not ours to read
        return False


def _database(path: str) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """(start, run id, content) of each run; none where it is a database of something else."""
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    except sqlite3.Error:  # locked, or in a mode that needs a file beside it
        return
    try:
        runs = connection.execute(
            "SELECT run_uuid, status, start_time, experiments.name FROM runs JOIN experiments USING (experiment_id)"
        ).fetchall()
        for run, status, start, experiment in runs:
            content: dict[str, Any] = {"status": status, "experiment": experiment}
            rows = (
                "SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY key, step, timestamp, value"
            )
            for key, step, value, nan in connection.execute(rows, (run,)):
                _add_metric(content, key, step, "nan" if nan else float(value).hex())
            for key, value in connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,)):
                content[f"param {key}"] = value
            for key, value in connection.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)):
                _add_tag(content, key, value)
            yield float(start or 0), run, content
    except (sqlite3.Error, TypeError, ValueError):  # not MLflow's, or of a version with other tables
        return
    finally:
        connection.close()


def _folder(run: str) -> tuple[float, dict[str, Any]]:
    content: dict[str, Any] = {}
    began = 0.0
    with open(os.path.join(run, "meta.yaml"), encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "start_time" and value.strip().isdigit():
                began = float(value)
            elif name == "status":
                content["status"] = value.strip()
    for kind, text in _texts(run):
        folder, _, key = kind.partition(os.sep)
        if folder == "metrics":
            for line in text.splitlines():
                parts = line.split()
                _add_metric(content, key, parts[2] if len(parts) > 2 else 0, parts[1] if len(parts) > 1 else "")  # noqa: PLR2004
        elif folder == "params":
            content[f"param {key}"] = text
        else:
            _add_tag(content, key, text)
    return began, content


def _texts(run: str) -> Iterator[tuple[str, str]]:
    for folder in ("metrics", "params", "tags"):
        for parent, _, names in os.walk(os.path.join(run, folder)):
            for name in sorted(names):
                path = os.path.join(parent, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    yield os.path.relpath(path, run), file.read()


def _add_metric(content: dict[str, Any], key: str, step: Any, value: str) -> None:
    if not key.startswith((PREFIX, "system/")):
        content.setdefault(f"metric {key}", []).append((int(step), value))


def _add_tag(content: dict[str, Any], key: str, value: str) -> None:
    if key == NOTE_TAG:
        value = without_note(value)
    if not key.startswith("trainmeter.") and (value or key != NOTE_TAG):
        content[f"tag {key}"] = value


def _artifacts(directory: str, run: str, content: dict[str, Any]) -> list[str]:
    """Add the run's artifacts by name and hash; the folders that hold them."""
    places = []
    for parent, inner, _ in os.walk(directory):
        if os.path.basename(parent) == run:
            places.append(os.path.relpath(parent, directory))
            inner.clear()
            _add_artifacts(os.path.join(parent, "artifacts"), content)
    return places


def _add_artifacts(root: str, content: dict[str, Any]) -> None:
    for parent, _, names in os.walk(root):
        for name in names:
            relative = os.path.relpath(os.path.join(parent, name), root)
            if relative.split(os.sep)[0] != FOLDER:
                with open(os.path.join(parent, name), "rb") as file:
                    content[f"artifact {relative}"] = hashlib.sha256(file.read()).hexdigest()[:16]
