"""The scalars that the user's own code emits: losses are observed at once, rows go to the side file twice a second."""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic, time
from typing import TYPE_CHECKING

from ..series import PREFIX
from .guard import site
from .this_process import agent_of_this_process

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Mapping

_SITE = site("emit")

_FLUSH_EVERY_S = 0.5
_MOST_ROWS = 500
_MOST_NAMES = 200
_LONGEST_NAME = 200
_INT64 = 1 << 63


class Emitted:
    """Rows that wait for the side file. Any thread may add one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = allocate_lock()
        self._names: dict[str, None] = {}
        self._rows: list[Any] = []
        self._flushed = 0.0

    def add(self, numbers: Mapping[str, float], step: int | None) -> None:
        """Add one row; numbers by name, at the user's own step."""
        agent = self._agent
        agent.publish().observe(numbers, step)
        if agent.identity.rank:
            return
        with self._lock:
            row = {name: number for name, number in numbers.items() if self._knows(name)}
            if row:
                self._rows.append([agent.ended.steps if step is None else step, time(), row])
        if len(self._rows) >= _MOST_ROWS or monotonic() - self._flushed >= _FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Append what waits to the side file, as one event."""
        with self._lock:
            rows, self._rows = self._rows, []
            self._flushed = monotonic()
        if rows:
            self._agent.event("scalars", {"rows": rows})

    def _knows(self, name: str) -> bool:
        if name not in self._names and len(self._names) < _MOST_NAMES:
            self._names[name] = None
        return name in self._names


def record(scalars: Mapping[str, Any], step: Any) -> None:
    """Take what `emit` was given: whatever it is, nothing is raised."""
    if not _SITE.on:
        return
    with _SITE:
        numbers = {
            name: number
            for name, number in ((name, _number(value)) for name, value in scalars.items())
            if number is not None and len(name) <= _LONGEST_NAME and not name.startswith(PREFIX)
        }
        if not numbers:
            return
        agent = agent_of_this_process()
        with agent.publish().logging():
            agent.publish().emitted.add(numbers, _step(step))


def _number(value: Any) -> float | None:
    try:
        # A tensor that needs a gradient warns when float() takes it, its item() does not.
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:  # noqa: BLE001 - the user's own object, or no number at all
        return None


def _step(value: Any) -> int | None:
    try:
        step = int(value)
    except Exception:  # noqa: BLE001 - as above
        return None
    return step if -_INT64 <= step < _INT64 else None
