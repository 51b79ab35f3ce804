"""What tm says to the person at the terminal: single lines on stderr, and nothing when asked to be quiet."""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO


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
            said = f"{_fresh_line(sys.stderr)}tm: {line}"
            print(said, file=sys.stderr, flush=True)  # noqa: T201 - stderr is where tm speaks
            if self._transcript:
                with open(self._transcript, "a", encoding="ascii") as file:
                    file.write(json.dumps(said + "\n") + "\n")
        except (OSError, ValueError):
            # Nobody reads stderr any more.
            return


def _fresh_line(stream: TextIO) -> str:
    """What leads to the beginning of a line on a terminal, wherever the program's progress bar left the cursor.

    As many blanks as the line is wide: within a line they run over into the next one, at its beginning they do not.
    """
    try:
        return " " * os.get_terminal_size(stream.fileno()).columns + "\r"
    except (OSError, ValueError, AttributeError):  # no terminal; closed; something else than a file
        return ""
