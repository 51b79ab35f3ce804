"""Which commit the user's script is at, as git says."""

from __future__ import annotations

import subprocess
from typing import Any

_PATIENCE_S = 2.0


def git_state(directory: str) -> dict[str, Any]:
    """Give `git_commit` and `git_dirty` of the repository a directory lies in; empty where there is none."""
    head = _git(directory, "rev-parse", "HEAD")
    if not head:
        return {}
    changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": head.strip(), "git_dirty": bool(changes) if changes is not None else None}


def _git(directory: str, *words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", directory, "--no-optional-locks", *words],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        # No git here, or a repository on a file system that does not answer.
        return None
    return done.stdout if done.returncode == 0 else None
