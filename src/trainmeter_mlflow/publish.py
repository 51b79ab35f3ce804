"""What the user's own log calls set off: follow their runs, and hand a row to the sender when one is due.

Everything here runs inside the user's call and only touches memory; the network belongs to the sender's thread.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Sequence

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

_ADVICE = "pass synchronous=False, or log less often"
_ADVICE_EVERY_S = 30.0


class _Inside:
    """Marks the time within one of the user's calls, so that what MLflow calls in turn is not seen again."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __enter__(self) -> None:
        self._local.depth = self.depth + 1

    def __exit__(self, *_: object) -> None:
        self._local.depth = self.depth - 1

    @property
    def depth(self) -> int:
        return int(getattr(self._local, "depth", 0))


class Publisher:
    """Follows the program's MLflow runs and gives our series to the primary one; one per agent."""

    def __init__(self, agent: AgentFace) -> None:
        self.agent = agent
        self.inside = _Inside()
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

    @property
    def silent(self) -> bool:
        """True where a call is not the user's own: within another one, on MLflow's or our thread, in a forked child."""
        if self._finished or self.inside.depth or os.getpid() != self._owner:
            return True
        return threading.current_thread().name.startswith((*_POOL_THREADS, Sender.NAME))

    def waited(self, call: str, seconds: float) -> None:
        """One of the user's calls blocked its thread for so long."""
        self._waited[call] = self._waited.get(call, 0.0) + seconds

    def logged(self, store: Any, run_id: str, metrics: Sequence[Any]) -> None:
        """The user logged metrics: follow the run, and publish beside them when a row is due."""
        values = {str(each.key): float(each.value) for each in metrics if not str(each.key).startswith(_SYSTEM)}
        if not values:
            return
        last = metrics[-1]
        step = int(last.step or 0)
        with self._lock:
            run = self._runs.of(store, run_id)
            fits = self._runs.follow(run, [(str(m.key), int(m.step or 0)) for m in metrics if m.key in values])
            primary = self._runs.elect(run)
        self.agent.observe(values, step)
        if primary and fits:
            self._publish(run, step, int(last.timestamp or 0))

    def updated(self, store: Any, run_id: str, status: Any) -> None:
        """A run changed its status: when the primary one ends, its last row and its passport follow."""
        from mlflow.entities import RunStatus

        named = status if isinstance(status, str) else RunStatus.to_string(status) if status is not None else ""
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
