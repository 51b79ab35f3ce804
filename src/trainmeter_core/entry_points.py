"""Entry points of one group, read from the metadata folders on a path.

It does what `importlib.metadata.entry_points` does for installed wheels, editable installs and eggs laid out as
folders, without that module's 60 imports, which every start of `tm` would wait for.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Iterable, NamedTuple

_FOLDERS = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"


class EntryPoint(NamedTuple):
    """A line of entry_points.txt: ``name = value``, the value a module or ``module:attribute``."""

    name: str
    value: str


def entry_points(group: str, path: Iterable[str] | None = None) -> list[EntryPoint]:
    """Give the group's entry points; of a distribution that lies on the path twice only the first counts."""
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for directory in dict.fromkeys(sys.path if path is None else path):
        for folder in _metadata_folders(directory or "."):
            name = re.sub(r"[-_.]+", "_", os.path.basename(folder).rpartition(".")[0].split("-")[0]).lower()
            if name in seen:
                continue
            seen.add(name)
            text = _text(os.path.join(folder, _FILE))
            if "[" + group + "]" in text:
                found += parse(text, group)
    return found


def parse(text: str, group: str) -> list[EntryPoint]:
    """Give the entries of one section of an entry_points.txt."""
    entries: list[EntryPoint] = []
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            entries.append(EntryPoint(name.strip(), value.partition("[")[0].strip()))
    return entries


def _metadata_folders(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        # An archive, a folder that is gone or not ours to read: no adapter lives there.
        return []
    return [os.path.join(directory, name) for name in sorted(names) if name.endswith(_FOLDERS)]


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        # Most distributions have no entry points.
        return ""
