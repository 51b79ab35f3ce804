"""One run under tm, from the command line to the exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .launch import end_like, inherited_environment, launch

if TYPE_CHECKING:
    from trainmeter_core.outside.options import RunOptions


def run(options: RunOptions, argv: list[str]) -> int:
    """Run `argv` and end as it ended; returns only an exit code, a death by signal is repeated on tm itself."""
    del options
    end = launch(argv, inherited_environment(), tick=lambda: None)
    if end.problem:
        print(f"tm: {end.problem}", file=sys.stderr)  # noqa: T201  the shell's own place for it
    end_like(end)
