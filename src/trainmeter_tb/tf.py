"""TensorFlow's own event writer, which is C++: no call of it can be tapped, so that only its directory is learned.

Our series go to the child run ``<logdir>/trainmeter``; what the user logs is read back from the growing file.
"""

from __future__ import annotations

import fcntl
import functools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.passport import markdown
from trainmeter_core.plain_files import opener

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

_READER = _SITE = "tensorboard.tf"
_OPTIMIZER_STEP = "trainmeter/step"
_MOST_DIRECTORIES = 8
_EVERY_S = 1.0
_CLAIM = ".writer"
# Its optimizers are seen to step; before the first step there is a row to come.
_TORCH = "torch.optim.optimizer"


def install(module: ModuleType, agent: AgentFace, child: ChildRun) -> Undo:
    """Learn the directory of every writer that the module makes; the undo puts the function back, by identity."""
    original = getattr(module, TAPPED)
    active = [True]

    @functools.wraps(original)
    def create_file_writer_v2(*args: Any, **kwargs: Any) -> Any:
        writer = original(*args, **kwargs)
        place = agent.guard(_SITE)
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
    """Our series beside the first directory that TensorFlow writes to; one per agent, silent in a forked child.

    A thread of our own reads the files, so that the training thread never does. Rows are written at optimizer steps
    that the agent sees; where it sees none, as in Keras, what `tm` reads of GPUs and node is written at the user's own
    steps. Of several ranks that share a directory only one writes.
    """

    def __init__(self, agent: AgentFace) -> None:
        self._agent = agent
        self._owner = os.getpid()
        self._tails: dict[str, Tail] = {}
        self._logdir = ""
        self._events: LocalEvents | None = None
        self._event: Any = None
        self._claim = -1
        self._another_writes = False
        self._rows = 0
        self._newest_step = self._written_step = -1
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._ended = threading.Event()

    @property
    def silent(self) -> bool:
        """True in a forked child, and after the end of the run."""
        return self._ended.is_set() or os.getpid() != self._owner

    def opened(self, logdir: Any) -> None:
        """A writer was made; one whose directory is no local path is left alone."""
        if self.silent or not isinstance(logdir, (str, bytes, os.PathLike)):
            return
        directory = absolute(os.fsdecode(logdir))
        if "://" in directory or directory in self._tails or len(self._tails) >= _MOST_DIRECTORIES:
            return
        self._tails = {**self._tails, directory: Tail(directory)}  # the thread may be reading
        if not self._logdir:
            self._logdir = directory
            self._agent.each_row(self.row)
            threading.Thread(target=self._follow, name="trainmeter-tf", daemon=True).start()

    def row(self) -> None:
        """Write the row that is due, if one is."""
        if not self.silent:
            self._write_row(self._agent.row_of_run(reader=_READER))

    def look(self) -> None:
        """Read what the user has logged since; without optimizer steps, write what was read of the machine then."""
        with self._reading:
            self._observe()
            if self._rows or _TORCH in sys.modules or self._newest_step <= self._written_step:
                return
            readings = self._agent.readings()
            if readings:
                with self._writing:
                    self._write(readings, self._newest_step)
                self._written_step = self._newest_step

    def finish(self) -> None:
        """Write the last row and the passport."""
        if self.silent or not self._logdir:
            return
        self._ended.set()
        self.look()
        self._write_row(self._agent.row_of_run(final=True, reader=_READER))
        passport = self._agent.passport()
        with self._writing:
            if self._events is not None:
                self._events.close(markdown.render(passport) if passport else None, passport)
                self._events = None
                os.close(self._claim)
            self._another_writes = True

    def _follow(self) -> None:
        while not self._ended.wait(_EVERY_S):
            place = self._agent.guard(_SITE)
            if getattr(place, "on", True):
                with place:
                    self.look()

    def _write_row(self, row: Mapping[str, float] | None) -> None:
        # Without the run's own count there is no place on its axis.
        if row and _OPTIMIZER_STEP in row:
            with self._writing:
                self._rows += 1
                self._write(row, int(row[_OPTIMIZER_STEP]))

    def _write(self, row: Mapping[str, float], step: int) -> None:
        if self._opens():
            assert self._events is not None
            self._events.write(row, step, time.time())
            # A worker forked from here must find nothing to flush.
            self._events.flush()

    def _opens(self) -> bool:
        if self._another_writes:
            return False
        if self._events is None:
            from .local import LocalEvents

            directory = os.path.join(self._logdir, CHILD)
            try:
                if not self._claims(directory):
                    self._another_writes = True
                    return False
                self._events = LocalEvents(directory)
            except ImportError:  # TensorFlow without tensorboard
                self._another_writes = True
                return False
            self._agent.publishes_to(TRACKER, logdir=self._logdir)
        return True

    def _claims(self, directory: str) -> bool:
        """Whether this is the one process that writes there: of several ranks with one directory, the first."""
        os.makedirs(directory, exist_ok=True)
        self._claim = opener(os.path.join(directory, _CLAIM), os.O_CREAT | os.O_WRONLY)
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._claim)
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def _observe(self) -> None:
        for directory, tail in self._tails.items():
            beside = "" if directory == self._logdir else os.path.basename(directory) + "/"
            for data in tail.new():
                told = told_by(self._event_class().FromString(data))
                if told.scalars:
                    self._newest_step = max(self._newest_step, told.step)
                    self._agent.observe({beside + tag: number for tag, number in told.scalars}, told.step)

    def _event_class(self) -> Any:
        if self._event is None:
            from tensorboard.compat.proto import event_pb2

            self._event = event_pb2.Event
        return self._event
