"""What one run of a command left: how it ended, what it printed, which files it wrote, and what is in its tracker."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from trainmeter_core.hookspecs import UsersData

_CHUNK = 1 << 20
UNREAD = "could not read"
"""The entry of a tracker whose adapter failed to read it."""


class Known(NamedTuple):
    """What tells cheaply that a file was not touched."""

    size: int
    changed: int
    inode: int
    mode: int


class Written(NamedTuple):
    """A file that a run made, changed or took away: its mode and a hash of its content; for a link, where it leads."""

    mode: str
    content: str
    size: int


@dataclass
class Outcome:
    """One run; `place` holds the files of `written` under their names."""

    label: str
    code: int
    seconds: float
    stdout: bytes
    stderr: bytes
    place: Path
    written: dict[str, Written] = field(default_factory=dict)
    trackers: list[UsersData] = field(default_factory=list)

    @property
    def end(self) -> str:
        """How it ended, for people."""
        return f"exit code {self.code}" if self.code >= 0 else f"signal {-self.code}"


def look(root: Path) -> dict[str, Known]:
    """Every file below a directory; links are not followed."""
    found = {}
    for directory, inner, names in os.walk(root):
        links = [name for name in inner if os.path.islink(os.path.join(directory, name))]
        for name in (*names, *links):
            path = os.path.join(directory, name)
            try:
                about = os.lstat(path)
            except OSError:  # gone since it was listed: a program that still tidies up
                continue
            found[os.path.relpath(path, root)] = Known(about.st_size, about.st_mtime_ns, about.st_ino, about.st_mode)
    return found


def written_since(root: Path, before: dict[str, Known]) -> dict[str, Written]:
    """The files that are not what they were."""
    after = look(root)
    found = {name: Written("gone", "", 0) for name in before.keys() - after.keys()}
    for name, known in after.items():
        if before.get(name) != known:
            found[name] = _content(root / name, known)
    return found


def _content(path: Path, known: Known) -> Written:
    mode = stat.filemode(known.mode)
    try:
        if stat.S_ISLNK(known.mode):
            return Written(mode, os.readlink(path), 0)
        if not stat.S_ISREG(known.mode):  # a socket, a pipe
            return Written(mode, "", 0)
        return Written(mode, digest(path), known.size)
    except OSError as error:  # a file that the program made unreadable
        return Written(mode, f"unreadable: {error.strerror}", known.size)


def digest(path: Path) -> str:
    """A hash of a file's bytes."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
    return hashed.hexdigest()
