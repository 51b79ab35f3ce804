"""TensorFlow's own event writer, which is C++: no call of it can be tapped, so that only its directory is learned.

Our series go to the child run ``<logdir>/trainmeter``, at the optimizer steps that the agent sees; what the user logs
is read back from the growing file.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.passport import markdown

from .events import told_by
from .publish import TRACKER
from .tail import Tail
from .writers import absolute

if TYPE_CHECKING:
    from types import ModuleType

    from trainmeter_core.hookspecs import AgentFace, Undo

    from .local import LocalEvents

MODULE = "tensorflow.python.ops.summary_ops_v2"
TAPPED = "create_file_writer_v2"
CHILD = "trainmeter"

_READER = "tensorboard.tf"
_OPTIMIZER_STEP = "trainmeter/step"
_MOST_DIRECTORIES = 8


def install(module: ModuleType, agent: AgentFace, child: ChildRun) -> Undo:
    """Learn the directory of every writer that the module makes; the undo puts the function back, by identity."""
    original = getattr(module, TAPPED)
    active = [True]

    @functools.wraps(original)
    def create_file_writer_v2(*args: Any, **kwargs: Any) -> Any:
        writer = original(*args, **kwargs)
        place = agent.guard("tensorboard.tf")
        if active and getattr(place, "on", True):
            with place:
                child.opened(args[0] if args else kwargs.get("logdir"))
        return writer

    setattr(module, TAPPED, create_file_writer_v2)

    def undo() -> None:
        active.clear()
        if getattr(module, TAPPED) is create_file_writer_v2:
            setattr(module, TAPPED, original)

    return undo


class ChildRun:
    """Our series beside the first directory that TensorFlow writes to; one per agent, silent in a forked child."""

    def __init__(self, agent: AgentFace) -> None:
        self._agent = agent
        self._owner = os.getpid()
        self._tails: dict[str, Tail] = {}
        self._logdir = ""
        self._events: LocalEvents | None = None
        self._event: Any = None
        self._finished = False

    @property
    def silent(self) -> bool:
        """True in a forked child, and after the end of the run."""
        return self._finished or os.getpid() != self._owner

    def opened(self, logdir: Any) -> None:
        """A writer was made; one whose directory is no local path is left alone."""
        if self.silent or not isinstance(logdir, (str, bytes, os.PathLike)):
            return
        directory = absolute(os.fsdecode(logdir))
        if "://" in directory or directory in self._tails or len(self._tails) >= _MOST_DIRECTORIES:
            return
        self._tails[directory] = Tail(directory)
        if not self._logdir:
            self._logdir = directory
            self._agent.each_row(self.row)

    def row(self) -> None:
        """Write the row that is due, if one is, and look at what the user has logged."""
        if not self.silent:
            self._write(self._agent.row(reader=_READER))
            self._observe()

    def finish(self) -> None:
        """Write the last row and the passport."""
        if self.silent or not self._logdir:
            return
        self._observe()
        self._write(self._agent.row(final=True, reader=_READER))
        passport = self._agent.passport()
        if self._events is not None:
            self._events.close(markdown.render(passport) if passport else None, passport)
        self._finished = True

    def _write(self, row: Mapping[str, float] | None) -> None:
        if row and self._opens():
            assert self._events is not None
            self._events.write(row, int(row[_OPTIMIZER_STEP]), time.time())
            # A worker forked from here must find nothing to flush.
            self._events.flush()

    def _opens(self) -> bool:
        if self._events is None:
            from .local import LocalEvents

            try:
                self._events = LocalEvents(os.path.join(self._logdir, CHILD))
            except ImportError:  # TensorFlow without tensorboard
                self._finished = True
                return False
            self._agent.publishes_to(TRACKER, logdir=self._logdir)
        return True

    def _observe(self) -> None:
        for directory, tail in self._tails.items():
            beside = "" if directory == self._logdir else os.path.basename(directory) + "/"
            for data in tail.new():
                told = told_by(self._event_class().FromString(data))
                if told.scalars:
                    self._agent.observe({beside + tag: number for tag, number in told.scalars}, told.step)

    def _event_class(self) -> Any:
        if self._event is None:
            from tensorboard.compat.proto import event_pb2

            self._event = event_pb2.Event
        return self._event
