"""The one thread of ours in the trainer: sends rows and panels, repeats what failed, spools what is left at the end."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import door, spool
from .place import public_uri, uri_of
from .run_page import RunPage, of_the_run

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

# Rows of so many seconds go together; a quarter of the metrics that MLflow takes at once keeps a request short.
LINGER_S = 2.0
MOST_METRICS = 250

# Beyond this many waiting rows the older half goes to the disk; with no disk, the oldest are lost.
MOST_WAITING = 1000
_MOST_HELD = 4000

EXIT_S = 5.0
# The queue is held for microseconds; who has it for longer has got stuck.
_LOCK_S = 0.2
_BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


class Target(NamedTuple):
    """A run in a store of the user's."""

    store: Any
    run_id: str


class Row(NamedTuple):
    """One row of series. With a `passport` the run's panels are written, `final` ones at the run's end.

    `timestamp` is in milliseconds and stays the same however often the row is sent, so that MLflow knows a repetition.
    """

    target: Target
    values: dict[str, float]
    step: int
    timestamp: int
    passport: dict[str, Any] | None
    final: bool


class Sender:
    """A bounded queue and the daemon thread that empties it; started by the first row."""

    NAME = "trainmeter-mlflow"

    def __init__(self, agent: AgentFace) -> None:
        self._agent = agent
        self._waiting: deque[Row] = deque()
        self._sending: list[Row] = []
        self._changed = threading.Condition()
        self._closing = False
        self._abandoned = False
        self._stuck = False
        self._pages: dict[tuple[int, str], RunPage] = {}
        self._thread: threading.Thread | None = None

    def put(self, row: Row) -> None:
        """Queue a row; where the thread has got stuck with the queue, the row is let go and not waited for."""
        if not self._changed.acquire(timeout=0.0 if self._stuck else _LOCK_S):
            self._stuck = True
            return
        try:
            if len(self._waiting) >= _MOST_HELD:
                self._waiting.popleft()
            self._waiting.append(row)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self.NAME, daemon=True)
                self._thread.start()
            self._changed.notify()
        finally:
            self._changed.release()

    def close(self) -> None:
        """Send what waits, for `EXIT_S` at the most, and leave the rest in the run directory."""
        self._closing = True
        if self._changed.acquire(timeout=_LOCK_S):
            self._changed.notify()
            self._changed.release()
        if self._thread is not None:
            self._thread.join(EXIT_S)
        held = self._changed.acquire(timeout=_LOCK_S)
        self._abandoned = True
        rest = [*self._sending, *self._waiting]
        self._waiting.clear()
        if held:
            self._changed.release()
        undrawn = [page for page in self._pages.values() if page.final]
        self._spool(rest, undrawn)

    # --- the thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        # Python prints what ends a thread; what waits is left in the run directory at the end.
        with self._agent.guard("mlflow.sender"):
            self._run()

    def _run(self) -> None:
        failures = 0
        while True:
            rows = self._next_rows()
            page = self._page(rows[0].target) if rows else self._page_with_work()
            if page is None:
                return
            # An attempt that was under way when the program ended may have met a server that has recovered since.
            last = self._closing
            outcome = self._attempt(page, rows)
            with self._changed:
                if self._abandoned:
                    return
                self._sending = []
                if outcome == door.LATER:
                    self._waiting.extendleft(reversed(rows))
                    if last:
                        return
                elif outcome == door.GONE:
                    self._waiting = deque(row for row in self._waiting if row.target.run_id != page.run_id)
            if outcome in (door.GONE, door.REFUSED):
                page.dropped()
            failures = failures + 1 if outcome == door.LATER else 0
            if failures:
                self._overflow()
                self._pause(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1])

    def _next_rows(self) -> list[Row]:
        """Wait for something to do; the rows of one run, oldest first, or none when it is time to draw or to end."""
        with self._changed:
            while not self._waiting:
                if self._closing or self._page_with_work() is not None:
                    return []
                self._changed.wait()
            until = time.monotonic() + LINGER_S
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            rows: list[Row] = []
            metrics = 0
            while self._waiting and metrics <= MOST_METRICS and (not rows or self._waiting[0].target == rows[0].target):
                rows.append(self._waiting.popleft())
                metrics += len(rows[-1].values)
            self._sending = rows
            return rows

    def _attempt(self, page: RunPage, rows: list[Row]) -> str:
        """Send rows, or draw where there are none; says what became of it."""
        work: Callable[[], None] = (lambda: page.send(rows)) if rows else page.draw
        try:
            work()
        except Exception as error:  # noqa: BLE001 - requests, SQLAlchemy, MLflow, artifact stores each raise their own
            what = door.meaning(error)
            if what == door.REFUSED:
                self._agent.guard("mlflow.send" if rows else "mlflow.panels").failed(error)
            return what
        return ""

    def _page(self, target: Target) -> RunPage:
        key = (id(target.store), target.run_id)
        if key not in self._pages:
            self._pages[key] = RunPage(self._agent, target.store, target.run_id)
        return self._pages[key]

    def _page_with_work(self) -> RunPage | None:
        return next((page for page in self._pages.values() if page.has_work), None)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _overflow(self) -> None:
        with self._changed:
            if len(self._waiting) < MOST_WAITING:
                return
            older = [self._waiting.popleft() for _ in range(MOST_WAITING // 2)]
        self._spool(older, [])

    def _spool(self, rows: list[Row], undrawn: list[RunPage]) -> None:
        parcels = [self._parcel(row) for row in rows]
        # Their rows have arrived: an empty one stands for the panels.
        parcels += [spool.Parcel(_address(page.store), page.run_id, 0, 0, {}, True) for page in undrawn]
        directory = self._agent.run_directory() if parcels else ""
        if directory:
            with self._agent.guard("mlflow.spool"):
                spool.append(directory, parcels)

    def _parcel(self, row: Row) -> spool.Parcel:
        store, run_id = row.target
        page = self._pages.get((id(store), run_id))
        before = page.before if page is not None else None
        values = of_the_run(row, before)
        whole = before is not None
        return spool.Parcel(_address(store), run_id, row.step, row.timestamp, values, panels=row.final, whole=whole)


def _address(store: Any) -> str:
    return public_uri(uri_of(store))
