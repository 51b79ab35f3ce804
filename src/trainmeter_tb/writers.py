"""Which of a program's event writers is the run, and at which step of the user's axis a row belongs; pure.

torch's and tensorboardX's add_scalars and add_hparams open more writers below the main one's directory; a program may
also keep one for training and one for evaluation. Ours go to one of them, and never to a sub-run.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Sequence
from weakref import ref

from trainmeter_core.step_axis import Axis

# A writer that shall replace the primary one must have shown this much more than it.
_CLEARLY_MORE = 2
_MARGIN = 10

# Tags beyond this many are not followed one by one, so that memory stays bounded.
_MAX_TAGS = 2048

# tensorboardX writes such characters of a tag as "_", but leaves them in the directory's name.
_CLEANED = re.compile(r"[^-/\w.]")


class Writer:
    """What is known of one event writer; refers to it weakly. `package` is how events are written to it."""

    __slots__ = ("axis", "closed", "events", "logdir", "nested", "package", "reference", "score")

    def __init__(self, logdir: str, package: Any, reference: Callable[[], object | None], nested: bool) -> None:
        self.package = package
        self.logdir = logdir
        self.reference = reference
        self.nested = nested
        self.closed = False
        self.events = 0
        self.score = 0
        self.axis = Axis()


class Writers:
    """All event writers of the program, by weak reference, and the primary one among them."""

    def __init__(self) -> None:
        self._known: dict[int, Writer] = {}
        self._logdirs: dict[str, None] = {}
        self.primary: Writer | None = None

    def of(self, writer: object, logdir: str, package: Any) -> Writer:
        """Give what is known of a writer, noted on first sight."""
        key = id(writer)
        known = self._known.get(key)
        if known is not None and known.reference() is writer:
            return known
        place = absolute(logdir)
        nested = any(is_below(place, other) for other in self._logdirs)
        weak = ref(writer, lambda _gone: self._known.pop(key, None))
        known = self._known[key] = Writer(place, package, weak, nested)
        if len(self._logdirs) < _MAX_TAGS:
            self._logdirs[place] = None
        return known

    def all_open(self) -> list[Writer]:
        """Writers that were not closed and are still alive, in the order in which they were first seen."""
        return [each for each in list(self._known.values()) if not each.closed and each.reference() is not None]

    def owner(self, writer: Writer, tags: Sequence[str]) -> Writer:
        """Give the writer on which add_scalars was called when this is one of its sub-runs, else the writer itself."""
        if not writer.nested:
            return writer
        for other in self.all_open():
            below = is_below(writer.logdir, other.logdir)
            if below and any(series_in_sub_run(writer.logdir, other.logdir, tag) is not None for tag in tags):
                return other
        return writer

    def elect(self, candidate: Writer) -> bool:
        """Say whether the candidate, which just got scalars of the user's, is the primary writer from now on."""
        primary = self.primary
        if primary is candidate:
            return True
        if candidate.closed or (candidate.nested and candidate.score == 0):
            return False
        if primary is not None and not primary.closed and primary.reference() is not None:
            above = is_below(primary.logdir, candidate.logdir) and candidate.score > 0
            if not above and candidate.score <= _CLEARLY_MORE * primary.score + _MARGIN:
                return False
        self.primary = candidate
        return True


def absolute(logdir: str) -> str:
    """Make a local directory absolute; a URL stays as it is."""
    return logdir.rstrip("/") if "://" in logdir else os.path.abspath(logdir)


def is_below(path: str, directory: str) -> bool:
    """True when the path lies strictly inside the directory."""
    return path != directory and path.startswith(directory.rstrip("/") + "/")


def series_in_sub_run(sub_run: str, logdir: str, tag: str) -> str | None:
    """Give the key of add_scalars that this sub-run holds; None when its name is not one that add_scalars makes.

    torch names it ``<main tag with _ for />_<key>``, tensorboardX ``<main tag>/<key>``; both write the main tag in it.
    """
    name = sub_run[len(logdir.rstrip("/")) + 1 :]
    cleaned = _CLEANED.sub("_", name)
    for start in (tag.replace("/", "_") + "_", tag + "/"):
        if cleaned.startswith(_CLEANED.sub("_", start)) and len(name) > len(start):
            return name[len(start) :]
    return None
