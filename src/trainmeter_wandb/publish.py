"""What goes into the user's own run beside their data, and when: merged series, and one closing row with the panels."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping as MappingABC
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, Mapping
from weakref import ref

from trainmeter_core.resumption import continued

from . import closing
from .numbers import losses
from .place import TRACKER, place_of
from .rows import Rows
from .summary import sums_in

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

GLOB = "trainmeter/*"
AXIS = "trainmeter/step"


class _Live:
    """What is known of one live run."""

    __slots__ = (
        "announced", "before", "closed", "key", "last", "next_row", "part", "reference", "rows", "since",
    )  # fmt: skip

    def __init__(self, key: str, reference: Callable[[], Any]) -> None:
        self.key = key
        self.reference = reference
        self.rows = Rows()
        self.announced = False
        self.closed = False
        self.last: dict[str, float] = {}
        self.next_row = 0.0
        """When there may be another row; of the monotonic clock."""
        self.before: Mapping[str, float] = {}
        """Sums that the run had when it was resumed."""
        self.since: Mapping[str, float] = {}
        """Sums that this process had when the run began, where it is not the first of a process that trains."""
        self.part: Any = None
        """The part of the process's training that is the run's; None for all of it."""


def _in_child(publisher: Callable[[], Publisher | None]) -> Callable[[], None]:
    """What a forked child runs: it holds no publisher alive, since it can never be taken out again."""

    def forked() -> None:
        found = publisher()
        if found is not None:
            found.forked()

    return forked


class Publisher:
    """Follows the program's runs, each by its object, and puts our series into their rows; one per agent."""

    def __init__(self, agent: AgentFace) -> None:
        self.agent = agent
        self.log_untapped: Callable[..., Any] = lambda *_args, **_kwargs: None
        self._runs: dict[int, _Live] = {}
        self._lock = threading.Lock()
        self._number = 0
        self.silent = False
        """True after the end of the process."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child(ref(self)))

    def forked(self) -> None:
        """In a forked child: runs that it inherited are its parent's; one that it begins itself is its own."""
        self._lock = threading.Lock()
        self._number = 0
        for state in list(self._runs.values()):
            state.closed = True

    # --- what the tap tells -------------------------------------------------------------------------------------

    def started(self, run: Any) -> None:
        """A run is live: choose the axis of our charts, go on from what it holds, and be there when it ends."""
        identity = id(run)
        with self._lock:
            if identity in self._runs:
                return
            self._number += 1
            gone = ref(run, lambda _gone: self._runs.pop(identity, None))
            state = self._runs[identity] = _Live(TRACKER + ":" + str(self._number), gone)
        # Registered after the client's own, and so run before it, each time a run starts.
        atexit.unregister(self.finish)
        atexit.register(self.finish)
        run.define_metric(GLOB, step_metric=AXIS)
        if self._number > 1:
            counts = self.agent.counts()
            if counts.get(AXIS):
                state.since, state.part = counts, self.agent.part()
        if getattr(run, "resumed", False):
            state.before = sums_in(run.summary)

    def logs(self, run: Any, data: Any, step: Any, commit: Any) -> Any:
        """Give what to log: the user's data, with our row in it when one is due and this row has none yet."""
        state = self._runs.get(id(run))
        if state is None:
            # Attached in a process that did not start it, or a client without the method that we tap for the start.
            self.started(run)
            state = self._runs[id(run)]
        if state.closed or not (type(data) is dict or isinstance(data, MappingABC)):
            return data
        told = losses(data)
        if told:
            self.agent.observe(told, None)
        rows, row = state.rows, None
        if monotonic() < state.next_row:
            if step is None and commit is not False:
                rows.merged = False
            else:
                rows.logged(step, commit, False)
            return data
        if not self._lock.acquire(blocking=False):
            return data
        try:
            if data and rows.takes(step):
                row = self._row(state)
            rows.logged(step, commit, row is not None)
        finally:
            self._lock.release()
        if not row:
            return data
        if not state.announced:
            self._announce(run, state)
        state.next_row = monotonic() + self.agent.row_interval_s
        ours = self._remember(state, row)
        return {**ours, **data}

    def closes(self, run: Any) -> None:
        """The run ends: add the closing row, the summary and the passport. Once per run."""
        state = self._runs.get(id(run))
        if state is None or state.closed:
            return
        state.closed = True
        row = self._row(state, final=True)
        if row:
            self._remember(state, row)
        if state.last and not state.announced:
            # Before the passport, which tells where the run is.
            self._announce(run, state)
        passport = self.agent.passport(state.part)
        if not state.last and passport is None:
            return
        if not state.announced:
            # The run is a place that its own passport names.
            self._announce(run, state)
            passport = self.agent.passport(state.part)
        closing.close(run, self.log_untapped, state.last, passport)

    def finish(self) -> None:
        """Close every run that its program left open; silent from then on."""
        if self.silent:
            return
        for state in list(self._runs.values()):
            run = state.reference()
            if run is not None:
                with self.agent.guard("wandb.finish"):
                    self.closes(run)
        self.silent = True

    # --- parts --------------------------------------------------------------------------------------------------

    def _announce(self, run: Any, state: _Live) -> None:
        """The first row of a run: say where it is."""
        state.announced = True
        self.agent.publishes_to(TRACKER, **place_of(run))

    def _row(self, state: _Live, final: bool = False) -> dict[str, float] | None:
        """The row that is due; one of before the run began is none of its own."""
        row = self.agent.row(final=final, reader=state.key)
        if row and state.since and row.get(AXIS, 0) <= state.since.get(AXIS, 0):
            return None
        return row

    @staticmethod
    def _remember(state: _Live, row: dict[str, float]) -> dict[str, float]:
        ours = continued(row, before=state.before, since=state.since)
        state.last.update(ours)
        return ours
