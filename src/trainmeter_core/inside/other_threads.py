"""Tells a training that goes on upon another thread from a second one that runs beside it, which is passed over.

A program may train on several threads one after the other: each epoch on its own, steps given to a pool. It is one
training then, and is followed. Where the first one goes on making steps meanwhile, two trainings run at once: the first
is counted and the second is not, for sums of both would be of neither.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet, ref

if TYPE_CHECKING:
    from .agent import Agent
    from .step_under_way import StepUnderWay

MYPY = False
if MYPY:
    from typing import Any

# Where a thread waits for others, or for work: the end of a file's name and a function of it.
_WAITS = {
    ("threading.py", "start"),
    ("threading.py", "join"),
    ("concurrent/futures/_base.py", "result"),
    ("concurrent/futures/_base.py", "wait"),
    ("concurrent/futures/_base.py", "as_completed"),
    ("concurrent/futures/thread.py", "_worker"),
    ("asyncio/base_events.py", "_run_once"),
}
# Library functions between such a one and the innermost frame.
_DEEPEST = 4

# Steps beside a training that makes none itself, for so many times its longest step: it has been left, and the other is
# followed.
_LEFT_AFTER = 20
_LEFT_FOR = 3
_SAID = (
    "another training ran in the same process at the same time, on another thread; steps, tokens and FLOPs here are "
    "those of the first one alone, and both share the devices' time"
)


class OtherThreads:
    """Which thread trains, and optimizer steps on others."""

    __slots__ = ("_at_once", "_beside", "_step", "_thread", "_told")

    def __init__(self, step: StepUnderWay) -> None:
        self._step = step
        self.train_here()
        self._at_once: Any = WeakSet()
        """Optimizers that have made a step, then the training did, then they again."""
        self._beside: Any = WeakKeyDictionary()
        """Optimizers that have made steps beside it: how many, since when, and how many it had made."""
        self._told = False

    def train_here(self) -> None:
        """This thread trains from now on."""
        self._step.thread = get_ident()
        thread = _threads().get(self._step.thread)
        self._thread = None if thread is None else ref(thread)

    def rests(self) -> bool:
        """Say whether the training thread has ended, or waits for another one or for work."""
        thread = self._step.thread
        # A thread that began later may have been given its number.
        ended = self._thread is not None and _threads().get(thread) is not self._thread()
        return ended or is_idle(thread)

    def pass_over(self, agent: Agent, optimizer: Any) -> bool:
        """Say whether an optimizer that steps on another thread than the training's is of another training.

        Where it is not, the training is on this thread from now on.
        """
        step = agent.step
        if agent.ended.startup is None:
            # Which one is the first is decided by who ends a step; until then it is who has begun one.
            return bool(step.in_optimizer) and not self.rests()
        if optimizer in self._at_once:
            return True
        if not agent.counter.leads(id(optimizer)) and not self.rests():
            now = monotonic()
            steps, since, events = self._beside.get(optimizer, (0, now, step.optimizer_events))
            if events != step.optimizer_events:
                self._at_once.add(optimizer)
                self._tell(agent)
                return True
            self._beside[optimizer] = steps + 1, since, events
            if steps + 1 < _LEFT_AFTER or now - since < _LEFT_FOR * agent.ended.longest:
                return True
            agent.look_again()
        self._beside.pop(optimizer, None)
        step.in_optimizer = step.leader = 0
        self.train_here()
        return False

    def _tell(self, agent: Agent) -> None:
        if not self._told:
            self._told = True
            agent.event("verdict", {"code": "another-training", "level": "info", "sentence": _SAID})


def _threads() -> Any:
    """The threads that `threading` knows, by their numbers; asking it in another way would make one up for this one."""
    return threading._active  # type: ignore[attr-defined]  # noqa: SLF001


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
