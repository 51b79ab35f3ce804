"""Our hardware series once more under MLflow's System metrics tab, where the user asks for it.

`tm --mlflow-system-metrics` switches it on. MLflow's own monitor counts its steps in intervals of its clock,
and a resumed one goes on from the largest step under ``system/``; ours count the same intervals, never training steps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Mapping, Sequence

from trainmeter_core.series import PREFIX

from . import door

if TYPE_CHECKING:
    from .sender import Row

OPTION = "TRAINMETER_MLFLOW_SYSTEM_METRICS"
_SHOWN = ("ladder/", "gpu/", "node/", "mfu_pct", "hfu_pct")
_DEFAULT_INTERVAL_S = 10.0


class SystemMirror:
    """Gives at most one set of metrics per interval of MLflow's monitor; until one `arrived`, it gives another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.on = environment.get(OPTION, "") in ("1", "true", "on", "yes")
        self._interval_s = _interval_s(environment)
        self._began = time.monotonic()
        self._step = self._given = -1

    def metrics(self, rows: Sequence[Row]) -> list[door.Metric]:
        """The newest row's hardware series, when the interval has gone by."""
        step = int((time.monotonic() - self._began) / self._interval_s)
        if not self.on or step <= self._step:
            return []
        # The row that ends a run may hold nothing but the passport.
        for row in reversed(rows):
            shown = {
                "system/" + name: value for name, value in row.values.items() if name[len(PREFIX) :].startswith(_SHOWN)
            }
            if shown:
                self._given = step
                return door.metrics_of(shown, row.timestamp, step)
        return []

    def arrived(self) -> None:
        """The store took what was given last."""
        self._step = self._given


def _interval_s(environment: Mapping[str, str]) -> float:
    """What MLflow's monitor averages over, from its own settings."""
    try:
        sampling = float(environment.get("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL") or _DEFAULT_INTERVAL_S)
        samples = float(environment.get("MLFLOW_SYSTEM_METRICS_SAMPLES_BEFORE_LOGGING") or 1)
    except ValueError:
        # MLflow itself refuses such a setting.
        return _DEFAULT_INTERVAL_S
    return max(1.0, sampling * samples)
