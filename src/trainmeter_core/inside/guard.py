"""The one guard at every border with the user's program: our failures are counted there and go no further."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

MYPY = False
if MYPY:
    from typing import Any

# After so many failures a site rests: a tap that keeps failing would only cost time.
PATIENCE = 5

# Under test what production swallows is raised.
STRICT = os.environ.get("TRAINMETER_STRICT") == "1"


class Site:
    """One place where our code runs inside the user's program; also a context manager that swallows Exceptions."""

    __slots__ = ("count", "first", "name", "on")

    def __init__(self, name: str) -> None:
        self.name = name
        self.on = True
        self.count = 0
        self.first = ""

    def failed(self, error: BaseException) -> None:
        """Count a failure, keep the first one's text, and rest after a few.

        What the user's own signal handler raised while our code ran is theirs, and goes on to them.
        """
        if from_a_signal(error):
            raise error
        self.count += 1
        if not self.first:
            self.first = _describe(error)
        if self.count >= PATIENCE:
            self.on = False
        if STRICT:
            raise error

    def __enter__(self) -> Site:  # noqa: PYI034 - typing.Self is newer than the oldest trainer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception) or from_a_signal(error):
            return False
        self.failed(error)
        return True


_sites: dict[str, Site] = {}


def site(name: str) -> Site:
    """Give the site of this name, the same object each time."""
    found = _sites.get(name)
    if found is None:
        found = _sites[name] = Site(name)
    return found


def note_failure(name: str, error: BaseException) -> None:
    """Count one failure at the site of this name."""
    site(name).failed(error)


def failures() -> dict[str, Site]:
    """Give the sites that failed at least once."""
    return {name: place for name, place in _sites.items() if place.count}


def unseen(error: BaseException) -> None:
    """Take the frame that caught the user's exception out of its traceback; the frame raises it again, bare.

    Up to Python 3.10 a bare raise goes back to the first traceback, and the frame stays visible there.
    """
    trace = error.__traceback__
    if trace is not None:
        error.__traceback__ = trace.tb_next


def from_a_signal(error: BaseException) -> bool:
    """Say whether a Python signal handler raised this: one of the traceback's frames is a handler's."""
    signals: Any = sys.modules.get("signal")
    if signals is None:
        return False
    handlers = [signals.getsignal(number) for number in range(1, signals.NSIG)]
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> Any:
    """The code of a function, a method, a partial or an object with `__call__`; None for one written in C."""
    for _ in range(8):
        if hasattr(handler, "__code__"):
            return handler.__code__
        inner = getattr(handler, "func", None) or getattr(handler, "__func__", None)
        if inner is None:
            inner = getattr(type(handler), "__call__", None)  # noqa: B004 - not whether, but which
        handler = inner
    return None


def _describe(error: BaseException) -> str:
    trace = error.__traceback__
    where = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        where = os.path.basename(code.co_filename) + ":" + str(trace.tb_lineno)
        trace = trace.tb_next
    return (type(error).__name__ + ": " + str(error))[:300] + (" at " + where if where else "")
