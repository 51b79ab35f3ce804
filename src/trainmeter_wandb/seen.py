"""What a W&B run tells, wherever it is read from: config, summary, and its series in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Mapping

from trainmeter_core.run_tables import Loss, Statistics
from trainmeter_core.series import PREFIX

MOST_SERIES = 4096
_PAGE = PREFIX + "passport"
_CLOCKS = ("_step", "_runtime", "_timestamp")


@dataclass
class Point:
    """One value of a series, its row, and the row's time in seconds since the epoch (None where it has none)."""

    row: int
    time: float | None
    value: float


@dataclass
class Track:
    """A series: its first and last point, and the largest value."""

    first: Point
    last: Point
    high: float


@dataclass
class SeenRun:
    """One run. `metadata` is what the client tells of the machine, under the names of its wandb-metadata.json.

    `page` is where the run keeps its passport panel, relative to its files. `started` is seconds since the epoch.
    """

    run_id: str = ""
    name: str = ""
    entity: str = ""
    project: str = ""
    started: float | None = None
    exit_code: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Track] = field(default_factory=dict)
    losses: dict[str, Loss] = field(default_factory=dict)
    system: dict[str, Statistics] = field(default_factory=dict)
    page: str | None = None
    rows: int = 0
    last_seen: float | None = None

    @property
    def ours(self) -> bool:
        """True when trainmeter published into it."""
        return any(name.startswith(PREFIX) for name in self.series)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add one row of the history."""
        self.rows += 1
        time = _number(row.get("_timestamp"))
        step = _number(row.get("_step"))
        if time is not None:
            self.last_seen = time if self.last_seen is None else max(self.last_seen, time)
        for name, value in _flat(row, ""):
            if name in _CLOCKS or name.startswith("_wandb"):
                continue
            self._add(name, value, None if step is None else int(step), time)
        panel = row.get(_PAGE)
        if isinstance(panel, Mapping) and panel.get("_type") == "html-file" and isinstance(panel.get("path"), str):
            self.page = panel["path"]

    def _add(self, name: str, value: float, step: int | None, time: float | None) -> None:
        if "loss" in name.lower() and not name.startswith(PREFIX):
            if name in self.losses:
                self.losses[name] = self.losses[name].then(Loss.of(value, step))
            elif len(self.losses) < MOST_SERIES:
                self.losses[name] = Loss.of(value, step)
        if not math.isfinite(value):
            return
        point = Point(self.rows, time, value)
        track = self.series.get(name)
        if track is not None:
            track.last = point
            track.high = max(track.high, value)
        elif len(self.series) < MOST_SERIES:
            self.series[name] = Track(point, point, value)

    def add_system(self, sample: Mapping[str, Any]) -> None:
        """Add one sample of the System section; names with or without their "system." in front."""
        for name, value in sample.items():
            number = _number(value)
            key = name[len("system.") :] if name.startswith("system.") else name
            if number is None or key.startswith("_"):
                continue
            if key in self.system or len(self.system) < MOST_SERIES:
                self.system.setdefault(key, Statistics()).add(number)


def _flat(row: Mapping[str, Any], prefix: str) -> list[tuple[str, float]]:
    told: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            if "_type" not in value:
                told += _flat(value, prefix + str(name) + ".")
            continue
        number = _number(value)
        if number is not None:
            told.append((prefix + str(name), number))
    return told


def _number(value: Any) -> float | None:
    """A number; the client writes those that are not finite as words."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(str(value).replace("Infinity", "inf"))
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
