"""Where `tm` starts: first of all it puts behind its own packages what is on the path for the user's program."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def own_path(path: list[str], theirs: list[str], home: str) -> list[str]:
    """Give `path` with the directories `theirs` at its end; `home`, where this package lies, stays in its place."""
    behind = {os.path.realpath(entry or ".") for entry in theirs} - {os.path.realpath(home)}
    last = [entry for entry in path if os.path.realpath(entry or ".") in behind]
    return [entry for entry in path if entry not in last] + last


def main(*left_out: str) -> NoReturn:
    """Run `tm`. Directories on PYTHONPATH come last: an adapter may lie there. `left_out` are not looked into."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    given = os.environ.get("PYTHONPATH")
    theirs = given.split(os.pathsep) if given else []
    here = {os.path.realpath(entry) for entry in left_out} - {os.path.realpath(entry) for entry in (*theirs, home)}
    sys.path[:] = own_path([entry for entry in sys.path if os.path.realpath(entry or ".") not in here], theirs, home)
    from .main import main as run

    run()
