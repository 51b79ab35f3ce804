"""Where `tm` starts: first of all it forgets what is on the path for the user's program alone, and may shadow ours."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def own_path(path: list[str], theirs: list[str], home: str) -> list[str]:
    """Give `path` without the directories `theirs`; `home`, where this package lies, stays."""
    left_out = {os.path.realpath(entry or ".") for entry in theirs} - {os.path.realpath(home)}
    return [entry for entry in path if os.path.realpath(entry or ".") not in left_out]


def main(*more: str) -> NoReturn:
    """Run `tm`. Left out are the directories on PYTHONPATH, and `more`."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    given = os.environ.get("PYTHONPATH")
    sys.path[:] = own_path(sys.path, [*(given.split(os.pathsep) if given else ()), *more], home)
    from .main import main as run

    run()
