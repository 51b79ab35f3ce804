"""What a log came to up to one of its bytes, so that a reader of a long run need not begin at its first line.

snapshot.json stands beside the log, is replaced atomically about once a minute by the run's `tm` and by whoever had to
read a long log without it, and holds sums only: where it does not fit the log, the whole log says the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from trainmeter_core import gpu_totals, restarts, run_record, run_tables
from trainmeter_core.flops import counted
from trainmeter_core.json_text import parse
from trainmeter_core.plain_files import opener
from trainmeter_core.readings import Absent
from trainmeter_core.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from .apply import Application

SNAPSHOT_FILE = "snapshot.json"
FORMAT = "trainmeter-snapshot/1"
_TAIL_BYTES = 256
_TAG = "~"

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (run_record, run_tables, gpu_totals, restarts, counted)
    for kind in vars(module).values()
    if isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, tuple)) and kind.__module__ == module.__name__
}


def save(directory: Path, application: Application, offset: int) -> None:
    """Write what the first `offset` bytes of the log came to. Raises OSError when it cannot be written."""
    state = json.dumps({name: _plain(value) for name, value in application.state().items()}, separators=(",", ":"))
    about = {
        "format": FORMAT,
        "trainmeter": __version__,
        "offset": offset,
        "before": _before(directory, offset),
        "sha256": hashlib.sha256(state.encode()).hexdigest(),
    }
    temporary = directory / f".{SNAPSHOT_FILE}.{os.getpid()}"
    try:
        handle = opener(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(about)[:-1] + f', "state": {state}}}\n')
        temporary.replace(directory / SNAPSHOT_FILE)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def load(directory: Path, application: Application) -> int:
    """Put the state of a fitting snapshot into an application; give the log's offset to read on from, 0 without one."""
    try:
        with open(directory / SNAPSHOT_FILE, encoding="utf-8", opener=opener) as file:
            text = file.read()
        about = parse(text)
        offset = about["offset"]
        state = text[text.index(', "state": ') + len(', "state": ') : -2]
        fits = (
            about["format"] == FORMAT
            and about["trainmeter"] == __version__
            and about["sha256"] == hashlib.sha256(state.encode()).hexdigest()
            and about["before"] == _before(directory, offset)
        )
        if not fits:
            return 0
        application.restore({name: _whole(value) for name, value in about["state"].items()})
    except (OSError, ValueError, KeyError, TypeError):
        # None there yet, half copied, or of another log or version: the log itself says everything.
        return 0
    return int(offset)


def _before(directory: Path, offset: int) -> str:
    """The bytes of the log that end at the offset, hashed: another log would not have them there."""
    from .format import LOG_FILE

    start = max(0, offset - _TAIL_BYTES)
    with open(directory / LOG_FILE, "rb", opener=opener) as file:
        file.seek(start)
        tail = file.read(offset - start)
    return hashlib.sha256(tail).hexdigest() if len(tail) == offset - start else ""


def _plain(value: Any) -> Any:
    """JSON of tables and of the records' own classes; each of these is an object with its class under one key."""
    if isinstance(value, Absent):
        return {_TAG: "Absent", "reason": value.reason}
    if type(value).__name__ in _CLASSES:
        names = getattr(value, "_fields", None) or [field.name for field in fields(value)]
        return {_TAG: type(value).__name__, **{name: _plain(getattr(value, name)) for name in names}}
    if isinstance(value, dict):
        if all(isinstance(key, str) and key != _TAG for key in value):
            return {key: _plain(inner) for key, inner in value.items()}
        return {_TAG: "dict", "items": [[_plain(key), _plain(inner)] for key, inner in value.items()]}
    if isinstance(value, tuple):
        return {_TAG: "tuple", "items": [_plain(inner) for inner in value]}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: _whole(inner) for key, inner in value.items()}
    if kind == "Absent":
        return Absent(value["reason"])
    if kind == "dict":
        return {_whole(key): _whole(inner) for key, inner in value["items"]}
    if kind == "tuple":
        return tuple(_whole(inner) for inner in value["items"])
    return _CLASSES[kind](**{name: _whole(inner) for name, inner in value.items() if name != _TAG})
