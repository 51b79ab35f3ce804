"""Attributes every moment of the training thread to one kind of time, so that the parts always add up to the whole."""

from __future__ import annotations

from _thread import get_ident
from time import monotonic

from ..ring_format import PHASE, STATE_END
from ..series import TIME_KINDS

MYPY = False
if MYPY:
    from typing import Any

STEP, DATA_WAIT, CHECKPOINT, EVAL, LOGGING, STARTUP, OTHER = range(len(TIME_KINDS))

# What it gives for a span opened straight on the base, which may change meanwhile.
ON_THE_BASE = len(TIME_KINDS)
# What `enter` gives on a thread that is not the training thread.
ELSEWHERE = -1


class SpanClock:
    """Seconds by kind since the start, never set back. Nested spans count once, to the innermost.

    The base kind says what runs outside any span: the step between its forward and its optimizer, an evaluation, or
    neither. Spans (a data wait, a checkpoint, a log call) lie on top of it. Every switch also writes one number of
    `page`, the ring's own header once there is a ring: when no step ends any more, it says where the rank hangs.
    """

    __slots__ = ("base", "current", "last", "page", "seconds", "thread")

    def __init__(self, start: float) -> None:
        self.start_anew(start)

    def start_anew(self, start: float) -> None:
        """Forget everything: a new process."""
        self.seconds: list[float] = [0.0] * len(TIME_KINDS)
        self.current = OTHER
        self.base = OTHER
        self.last = start
        self.page: Any = [0.0] * STATE_END
        self.thread = get_ident()

    def set_base(self, kind: int) -> None:
        """Say what runs from now on outside of spans."""
        if self.current == self.base:
            now = monotonic()
            self.seconds[self.current] += now - self.last
            self.last = now
            self.current = self.page[PHASE] = kind
        self.base = kind

    def enter(self, kind: int) -> int:
        """Open a span; give what `leave` needs."""
        if get_ident() != self.thread:
            return ELSEWHERE
        now = monotonic()
        outer = self.current
        self.seconds[outer] += now - self.last
        self.last = now
        self.current = self.page[PHASE] = kind
        # A span opened straight on the base returns to the base of that time, which may have changed meanwhile.
        return ON_THE_BASE if outer == self.base else outer

    def leave(self, outer: int) -> float:
        """Close a span; give its own seconds, inner spans excluded."""
        if outer == ELSEWHERE:
            return 0.0
        now = monotonic()
        spent = now - self.last
        self.seconds[self.current] += spent
        self.last = now
        self.current = self.page[PHASE] = self.base if outer == ON_THE_BASE else outer
        return spent

    def step_ended(self, now: float) -> list[float]:
        """Give the seconds by kind up to now, the clock's own list; what follows is `other`. Open spans go on."""
        current = self.current
        self.seconds[current] += now - self.last
        self.last = now
        if current == self.base:
            self.current = self.page[PHASE] = OTHER
        self.base = OTHER
        return self.seconds

    def until(self, now: float) -> list[float]:
        """Give the seconds by kind up to now; nothing else changes."""
        self.seconds[self.current] += now - self.last
        self.last = now
        return list(self.seconds)
