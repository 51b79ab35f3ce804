"""What a program itself wrote into event files, value by value: `tm selftest` compares it without and with tm."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from trainmeter_core.hookspecs import UsersData
from trainmeter_core.series import PREFIX

from .events import LAYOUT_TAG, scalar_of, string_of
from .panels import is_ours
from .read import find_runs
from .records import RecordReader

_NUMBER = re.compile(r"\d+")


def users_data(directory: str) -> list[UsersData]:
    """Each log directory below `directory` that has event files."""
    try:
        from tensorboard.compat.proto import event_pb2
    except ImportError:  # tm without tensorboard
        return []
    found: list[UsersData] = []
    for place, paths in sorted(find_runs(directory).items()):
        relative = os.path.relpath(place, directory)
        content: dict[str, Any] = {"event files": len(paths)}
        for path in sorted(paths, key=_order):
            with open(path, "rb") as file:
                for data in RecordReader(file):
                    _add(content, event_pb2.Event.FromString(data))
        name = f"TensorBoard {_NUMBER.sub('#', relative)}"
        if any(each.name.partition(" (")[0] == name for each in found):
            name += f" ({sum(each.name.partition(' (')[0] == name for each in found) + 1})"
        found.append(UsersData(name, tuple(os.path.relpath(path, directory) for path in paths), content))
    return found


def _order(path: str) -> list[Any]:
    """The order in which files were opened: a name has the time, and ends in a count."""
    return [int(part) if part.isdigit() else 0 for part in os.path.basename(path).split(".")]


def _add(content: dict[str, Any], event: Any) -> None:
    what = event.WhichOneof("what")
    if what is None:
        return
    if what != "summary":
        # A graph, a session's start, the file's version: as they are, without the time.
        event.ClearField("wall_time")
        content.setdefault(f"({what})", []).append(_hash(event.SerializeToString(deterministic=True)))
        return
    for value in event.summary.value:
        if value.tag.startswith(PREFIX):
            continue
        if value.tag == LAYOUT_TAG:
            # Only the newest one counts, and ours repeats the user's beside our own.
            content.pop(LAYOUT_TAG, None)
            theirs = _layout(string_of(value) or b"")
            if theirs:
                content[LAYOUT_TAG] = theirs
            continue
        number = scalar_of(value)
        kept = float(number).hex() if number is not None else _hash(value.SerializeToString(deterministic=True))
        content.setdefault(value.tag, []).append((event.step, kept))


def _layout(text: bytes) -> list[str]:
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = layout_pb2.Layout.FromString(text).category
    return [_hash(each.SerializeToString(deterministic=True)) for each in categories if not is_ours(each)]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
