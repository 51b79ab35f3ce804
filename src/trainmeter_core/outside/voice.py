"""What tm says to the person at the terminal: single lines on stderr, and nothing when asked to be quiet."""

from __future__ import annotations

import json
import sys


class Voice:
    """`say` is for what must be said; `tell` keeps quiet under --quiet. All of it is noted down in `transcript`."""

    def __init__(self, *, quiet: bool, transcript: str = "") -> None:
        self._quiet = quiet
        self._transcript = transcript

    def tell(self, line: str) -> None:
        """Say a line, unless the user asked for none."""
        if not self._quiet:
            self.say(line)

    def say(self, line: str) -> None:
        """Say a line."""
        if sys.stderr is None:  # closed at the start: print would take stdout, which is the program's
            return
        try:
            print(f"tm: {line}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is where tm speaks
            if self._transcript:
                with open(self._transcript, "a", encoding="ascii") as file:
                    file.write(json.dumps(f"tm: {line}\n") + "\n")
        except (OSError, ValueError):
            # Nobody reads stderr any more.
            return
