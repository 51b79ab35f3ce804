"""How the ranks of a node that each call `start` meet: the first leaves word of its outside process for the others.

The word lies in a directory of this user alone, under a name that only ranks of the same launcher, job and attempt
can make. A process that was killed may leave one behind: who reads it looks whether that process still lives.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time

MYPY = False
if MYPY:
    from typing import Any

_LOOKS_EVERY_S = 0.05
_OF_THE_JOB = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE")


def announce(told: dict[str, Any], watcher: int) -> str | None:
    """Leave word for the other ranks of this node; give its path, or None where there are none."""
    if _local_world() < 2:  # noqa: PLR2004 - others
        return None
    path = _path()
    if path is None:
        return None
    temporary = f"{path}.{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({**told, "watcher": watcher}, file)
    os.replace(temporary, path)
    return path


def found(within_s: float) -> dict[str, Any] | None:
    """What the first rank of this node left, waiting for it so long; None where it leaves nothing."""
    path = _path() if _local_world() > 1 else None
    until = time.monotonic() + within_s
    while path is not None:
        told = _read(path)
        if told is not None:
            return told
        if time.monotonic() > until:
            return None
        time.sleep(_LOOKS_EVERY_S)
    return None


def withdraw(path: str | None) -> None:
    """Take the word away."""
    if path is not None:
        try:
            os.unlink(path)
        except OSError:
            # Somebody emptied the temporary directory.
            return


def _local_world() -> int:
    try:
        return int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 1


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        os.kill(int(told["watcher"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        # Not there yet, or of a process that was killed.
        return None
    return told if isinstance(told, dict) and isinstance(told.get("variables"), dict) else None


def _path() -> str | None:
    """Where the word lies; None where the directory is not this user's alone."""
    home = os.path.join(tempfile.gettempdir(), f"trainmeter-{os.getuid()}")
    os.makedirs(home, 0o700, exist_ok=True)
    seen = os.lstat(home)
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        return None
    job = [str(os.getppid()), *(os.environ.get(name, "") for name in _OF_THE_JOB)]
    return os.path.join(home, "job-" + hashlib.sha256("\n".join(job).encode()).hexdigest()[:16])
