"""Which checkpoints a process saved and loaded, and how many steps its optimizer had before: where a restart resumed.

A checkpoint is known by its file's inode number and size, which a rename keeps; no path is told. A tensor on a device
is never read.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any

_MOST_LOADS = 64
_MOST_STATES = 4096
_ARGUMENT = {
    "torch.save": (1, "f"),
    "torch.load": (0, "f"),
    "safetensors.save_file": (1, "filename"),
    "safetensors.save_model": (1, "filename"),
    "safetensors.load_file": (0, "filename"),
    "safetensors.load_model": (1, "filename"),
}
"""Position and name of the argument that is the place."""
_PLACES = ("checkpoint_id", "storage_writer", "storage_reader")
"""Where torch.distributed.checkpoint is told the place."""


class Loads:
    """What was loaded before the first optimizer step."""

    def __init__(self) -> None:
        self.count = 0
        self.marks: list[str] = []

    def add(self, mark: str) -> None:
        """Something was loaded; without a mark from where is not known."""
        self.count += 1
        if mark and mark not in self.marks:
            self.marks.append(mark)
            del self.marks[:-_MOST_LOADS]


LOADS = Loads()
"""This process's; a forked child has its parent's."""


def loaded(agent: Agent, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A loader was called with these arguments."""
    if not agent.ended.steps:
        LOADS.add(mark_of(_place(name, args, kwargs)))


def saved(agent: Agent, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A saver has ended; what is saved before the first step is no point to go on from."""
    if agent.ended.steps:
        agent.event("saved", {"step": agent.ended.steps, "mark": mark_of(_place(name, args, kwargs))})


def made_before(optimizer: Any, *, skipped: bool) -> int | None:
    """Steps that the optimizer counts itself, without the one that just ended; None where it cannot be told."""
    most: int | None = None
    states = getattr(optimizer, "state", None) or {}
    for at, state in enumerate(states.values()):
        if at >= _MOST_STATES:
            break
        count = state.get("step") if isinstance(state, dict) else None
        if count is None:
            continue
        device = getattr(count, "device", None)
        if device is not None and device.type != "cpu":
            return None
        most = max(most or 0, int(count))
    return None if most is None else most - (not skipped)


def _place(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument of a saver or a loader that names the file or directory."""
    at, keyword = _ARGUMENT.get(name, (None, ""))
    if at is not None:
        return args[at] if len(args) > at else kwargs.get(keyword)
    for known in _PLACES:
        if kwargs.get(known) is not None:
            return getattr(kwargs[known], "path", kwargs[known])
    return None


def mark_of(place: Any) -> str:
    """A file or directory as inode number and size; "" for anything else."""
    if isinstance(place, (str, os.PathLike)):
        return _of_path(place)
    return _of_file(place) if hasattr(place, "fileno") and hasattr(place, "tell") else ""


def _of_path(path: Any) -> str:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        # Not a file of this node: a URL, another store, or a name that means something else.
        return ""
    return f"d{found.st_ino}" if stat.S_ISDIR(found.st_mode) else f"{found.st_ino}:{found.st_size}"


def _of_file(file: Any) -> str:
    """An open file: one that is written has its size at its position, one that is read has it already."""
    try:
        found = os.fstat(file.fileno())
        size = found.st_size
        if file.writable():
            size = max(size, file.tell())
    except (OSError, ValueError, AttributeError):
        # In memory, or closed by now.
        return ""
    return f"{found.st_ino}:{size}"
