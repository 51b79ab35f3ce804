"""What the user's own log calls set off: follow their runs, and hand a row to the sender when one is due.

Everything here runs inside the user's call and only touches memory; the network belongs to the sender's thread. Most
calls are only noted, and followed up together: code that runs once a step is not in the processor's caches, and it
costs several times there what it costs in a loop of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from trainmeter_core.resumption import continued

from .place import public_uri, uri_of
from .runs import Run, Runs
from .sender import Row, Sender, Target

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

TRACKER = "mlflow"

_OPTIMIZER_STEP = "trainmeter/step"

# MLflow's own series; a run is not known by them, and its monitor is no training loop.
_SYSTEM = "system/"

# Its pool repeats, later and in any order, what the user's asynchronous calls handed over.
_POOL_THREADS = ("MLflowBatchLoggingWorkerPool", "MLflowAsyncLogging")

_ENDED = ("FINISHED", "FAILED", "KILLED")

# (until this age of the run in seconds, at most one row in so many seconds): a chart shows a few hundred points, and
# each row costs the server some sixty.
_PACE = ((60.0, 1.0), (1800.0, 5.0), (float("inf"), 10.0))

# The node's readings are three quarters of a row and change slowly.
_NODE = "trainmeter/node/"
_NODE_EVERY_S = 30.0

# Calls are followed up after so many seconds, or so many of them; so large a call is not kept.
_NOTED_S = 1.0
_MOST_NOTED = 256

_ADVICE = "pass synchronous=False, or log less often"
_ADVICE_EVERY_S = 30.0


class _Noted(NamedTuple):
    """A call that logged metrics, and how many optimizer steps had ended when it returned."""

    store: Any
    run_id: str
    metrics: Sequence[Any]
    steps: int


class Publisher:
    """Follows the program's MLflow runs and gives our series to the primary one; one per agent."""

    def __init__(self, agent: AgentFace) -> None:
        self.agent = agent
        self.inside: set[int] = set()
        """Threads within one of the user's calls, so that what MLflow calls in turn is not seen again."""
        self._main = threading.main_thread().ident
        self._noted: deque[_Noted] = deque()
        self._noted_of = ""
        self._follow_at = 0.0
        self._runs = Runs()
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._finished = False
        self._sender: Sender | None = None
        self._began = 0.0
        self._next_row = 0.0
        self._next_node = 0.0
        self._waited: dict[str, float] = {}
        self._next_advice = time.monotonic() + _ADVICE_EVERY_S
        agent.before_passport(self._observe_rest)

    @property
    def silent(self) -> bool:
        """True where a call is not the user's own: within another one, on MLflow's or our thread, in a forked child."""
        me = threading.get_ident()
        if self._finished or me in self.inside or os.getpid() != self._owner:
            return True
        return me != self._main and threading.current_thread().name.startswith((*_POOL_THREADS, Sender.NAME))

    def waited(self, call: str, began: float) -> None:
        """One of the user's calls, which began then, has blocked its thread until now."""
        self._waited[call] = self._waited.get(call, 0.0) + time.monotonic() - began

    def logged(self, store: Any, run_id: str, metrics: Sequence[Any]) -> None:
        """The user logged metrics: note it; follow up what was noted once a second, or when a row is due."""
        now = time.monotonic()
        self._noted.append(_Noted(store, run_id, metrics, self.agent.steps_ended()))
        if (
            now >= self._follow_at
            or now >= self._next_row
            or run_id != self._noted_of
            or len(self._noted) >= _MOST_NOTED
            or len(metrics) >= _MOST_NOTED
        ):
            self._noted_of = run_id
            self._follow_up()

    def _follow_up(self) -> None:
        """Follow the runs of the calls that were noted, and publish beside the newest when a row is due."""
        self._follow_at = time.monotonic() + _NOTED_S
        with self._lock:
            while self._noted:
                self._follow(self._noted.popleft(), publish=not self._noted)

    def _observe_rest(self) -> None:
        """Tell the agent what is still noted; a row waits for the user's next call."""
        if self._finished or os.getpid() != self._owner:
            return
        with self._lock:
            while self._noted:
                self._follow(self._noted.popleft(), publish=False)

    def _follow(self, noted: _Noted, *, publish: bool) -> None:
        values = {str(m.key): float(m.value) for m in noted.metrics if not str(m.key).startswith(_SYSTEM)}
        if not values:
            return
        last = noted.metrics[-1]
        step = int(last.step or 0)
        run = self._runs.of(noted.store, noted.run_id)
        fits = self._runs.follow(run, [(str(m.key), int(m.step or 0)) for m in noted.metrics if m.key in values])
        primary = self._runs.elect(run)
        self.agent.observe(values, step, noted.steps)
        if publish and primary and fits:
            self._publish(run, step, int(last.timestamp or 0))

    def updated(self, store: Any, run_id: str, status: Any) -> None:
        """A run changed its status: when the primary one ends, its last row and its passport follow."""
        from mlflow.entities import RunStatus

        named = status if isinstance(status, str) else RunStatus.to_string(status) if status is not None else ""
        self._follow_up()
        run = self._runs.find(store, run_id)
        if run is None or run.ended or named not in _ENDED:
            return
        run.ended = True
        if run is self._runs.primary:
            self._end(run)

    def finish(self) -> None:
        """Send what is left, for five seconds at the most; silent from then on."""
        if self._finished or os.getpid() != self._owner:
            return
        self._follow_up()
        run = self._runs.primary
        if run is not None and not run.ended:
            run.ended = True
            self._end(run)
        self._finished = True
        if self._sender is not None:
            self._sender.close()
        self._advise()

    def _publish(self, run: Run, step: int, timestamp: int) -> None:
        now = time.monotonic()
        if now < self._next_row and run.began:
            return
        row = self.agent.row(reader=TRACKER)
        if not row:
            return
        self._began = self._began or now
        self._next_row = now + next(pace for age, pace in _PACE if now - self._began < age) - 0.05
        at = run.axis.place(step, row.get(_OPTIMIZER_STEP))
        passport = None if run.began else self.agent.passport()
        self._give(run, Row(Target(run.store, run.run_id), row, at, timestamp, passport, final=False))
        if now >= self._next_advice:
            self._next_advice = now + _ADVICE_EVERY_S
            self._advise()

    def _end(self, run: Run) -> None:
        row = self.agent.row(final=True, reader=TRACKER) or {}
        passport = self.agent.passport()
        if row or passport:
            at = run.axis.end(row.get(_OPTIMIZER_STEP))
            now = int(time.time() * 1000)
            self._give(run, Row(Target(run.store, run.run_id), row, at, now, passport, final=True))
        self._runs.since = self.agent.counts()

    def _give(self, run: Run, row: Row) -> None:
        if not run.began:
            run.began = True
            self.agent.publishes_to(TRACKER, tracking_uri=public_uri(uri_of(run.store)), run_id=run.run_id)
        if self._sender is None:
            self._sender = Sender(self.agent)
        row = row._replace(values=continued(row.values, before={}, since=run.since) if row.values else {})
        now = time.monotonic()
        if now >= self._next_node or row.final:
            self._next_node = now + _NODE_EVERY_S
        else:
            kept = {name: value for name, value in row.values.items() if not name.startswith(_NODE)}
            row = row._replace(values=kept)
        self._sender.put(row)

    def _advise(self) -> None:
        for call, seconds in self._waited.items():
            self.agent.blocked("MLflow's " + call, seconds, _ADVICE)
