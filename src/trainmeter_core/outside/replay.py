"""A finished run's series again, from its log: the rows that a tracker would have got, the same at each reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.runlog.format import LOG_FILE
from trainmeter_core.runlog.read import lines, read_run
from trainmeter_core.series import PREFIX

from .live import LiveRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trainmeter_core.meter import Budget

ROW_EVERY_S = 1.0


class ReplayedRow(NamedTuple):
    """One row: seconds since the epoch, optimizer step, series by name with prefix."""

    time: float
    step: int
    series: Mapping[str, float]


class Replay:
    """Reads a run directory row by row, in memory that does not grow with the run; may be iterated again."""

    def __init__(self, directory: Path, budget: Budget | None = None) -> None:
        logs = (directory / LOG_FILE, *sorted(directory.glob(f"node*/{LOG_FILE}")))
        self._logs = [log for log in logs if log.is_file()]
        options = read_run(directory).options
        self._convention = options.convention if isinstance(options.convention, str) else None
        self._peak = options.peak_tflops if isinstance(options.peak_tflops, (int, float)) else None
        self._budget = budget

    def __iter__(self) -> Iterator[ReplayedRow]:
        live = LiveRun(convention=self._convention, peak_tflops=self._peak, budget=self._budget)
        node: dict[str, float] = {}
        last: float | None = None
        newest = 0.0
        for record in self._records():
            try:
                moved = _apply(record, live, node)
                newest = max(newest, float(record["t"])) if moved else newest
            except (KeyError, TypeError, ValueError):  # a record of another version: it costs only itself
                continue
            if moved and (last is None or newest - last >= ROW_EVERY_S):
                row = live.row()
                if row is not None:
                    last = newest
                    yield _row(newest, row, node)
        row = live.row()
        if row is not None:
            yield _row(newest, row, node)

    def count(self) -> int:
        """How many rows there are."""
        return sum(1 for _ in self)

    def _records(self) -> Iterator[dict[str, Any]]:
        for log in self._logs:
            for line, _size in lines(log):
                try:
                    record = json.loads(line or b"")
                except ValueError:  # a torn tail
                    continue
                if isinstance(record, dict):
                    yield record


def _apply(record: Mapping[str, Any], live: LiveRun, node: dict[str, float]) -> bool:
    """Take one record; True when it brought steps."""
    kind = record.get("type")
    if kind == "process":
        live.world_size = max(live.world_size, int(record["world_size"]))
    elif kind == "model":
        live.model(int(record["rank"]), dict(record["description"]))
    elif kind == "node":
        node.update({name: value for name, value in record["readings"].items() if isinstance(value, (int, float))})
    elif kind == "steps":
        live.steps(int(record["rank"]), live.world_size, dict(record))
        return True
    return False


def _row(time: float, row: Mapping[str, float], node: Mapping[str, float]) -> ReplayedRow:
    told = {PREFIX + name: value for name, value in node.items()}
    return ReplayedRow(time, int(row[PREFIX + "step"]), {**told, **row})
