"""Tells a training that goes on upon another thread from a second one that runs beside it, which is passed over.

A program may train on several threads one after the other: each epoch on its own, steps given to a pool. It is one
training then, and is followed. Where two trainings run at once, the first is counted and the second is not: sums of
both would be of neither.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any

# Where a thread waits for others, or for work: the end of a file's name and a function of it.
_WAITS = {
    ("threading.py", "join"),
    ("concurrent/futures/_base.py", "result"),
    ("concurrent/futures/_base.py", "wait"),
    ("concurrent/futures/_base.py", "as_completed"),
    ("concurrent/futures/thread.py", "_worker"),
    ("asyncio/base_events.py", "_run_once"),
}
# Library functions between such a one and the innermost frame.
_DEEPEST = 4

# Steps beside a training that makes none itself: it has been left, and the other one is followed.
_LEFT_AFTER = 20
# A few steps may be anybody's; from so many on the user is told.
_TOLD_AFTER = 3

_SAID = (
    "another training ran in the same process at the same time, on another thread; steps, tokens and FLOPs here are "
    "those of the first one alone, and both share the devices' time"
)


class OtherThreads:
    """Optimizer steps on threads that are not the training thread."""

    __slots__ = ("_in_a_row", "_own_events", "_passed")

    def __init__(self) -> None:
        self._passed = self._in_a_row = 0
        self._own_events = -1

    def pass_over(self, agent: Agent, optimizer: Any) -> bool:
        """Say whether an optimizer that steps on another thread than the training's is of another training.

        Where it is not, the training is on this thread from now on.
        """
        step = agent.step
        if agent.ended.startup is None:
            # Which one is the first is decided by who ends a step; until then it is who has begun one.
            return bool(step.in_optimizer) and not is_idle(step.thread)
        if not agent.counter.leads(id(optimizer)) and not is_idle(step.thread):
            if step.optimizer_events != self._own_events:
                self._own_events, self._in_a_row = step.optimizer_events, 0
            self._in_a_row += 1
            self._passed += 1
            if self._passed == _TOLD_AFTER:
                agent.event("verdict", {"code": "another-training", "level": "info", "sentence": _SAID})
            if self._in_a_row < _LEFT_AFTER:
                return True
            agent.look_again()
        step.in_optimizer = step.leader = 0
        step.thread = get_ident()
        return False


def is_idle(thread: int) -> bool:
    """Say whether a thread has ended, or waits for another one or for work."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only list that has foreign threads as well
    if frame is None:
        return True
    for _ in range(_DEEPEST):
        if frame is None:
            return False
        name = frame.f_code.co_filename.replace("\\", "/")
        if any(frame.f_code.co_name == function and name.endswith("/" + file) for file, function in _WAITS):
            return True
        frame = frame.f_back
    return False
