"""One run as MLflow shows it: its metrics, tags, description, artifacts, and the charts of its experiment."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from trainmeter_core.resumption import continued
from trainmeter_core.series import CUMULATIVE, PREFIX

from . import door, panels
from .place import VIEW_KEY, public_uri, uri_of
from .system import SystemMirror

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

    from .sender import Row

TRACKER = "mlflow"
FOLDER = "trainmeter"
NOTE_TAG = "mlflow.note.content"
VIEW_TAG = "mlflow.sharedViewState." + VIEW_KEY

_TAGS_EVERY_S = 60.0


class RunPage:
    """Writes to one run, always from the sender's thread; what a store does not take is raised.

    The rows come first. What is drawn around them waits in `passport` until there is time for it.
    """

    def __init__(self, agent: AgentFace, store: Any, run_id: str) -> None:
        self._agent = agent
        self.store = store
        self.run_id = run_id
        self.passport: dict[str, Any] | None = None
        self.final = False
        self._door = door.door_of(store)
        self._met = False
        self.before: dict[str, float] | None = None
        """The sums of the run's earlier processes; None until the store was asked."""
        self._latest: dict[str, float] = {}
        self._tags_at = 0.0
        self._mirror = SystemMirror(os.environ)

    @property
    def has_work(self) -> bool:
        """True while something is to be drawn."""
        return self.passport is not None

    def send(self, rows: Sequence[Row]) -> None:
        """Write rows; the newest passport that they carry is to be drawn."""
        if self.before is None:
            facts = self._door.run(self.run_id)
            self.before = before_this_process(facts.metrics)
            where = {"tracking_uri": public_uri(uri_of(self.store)), "run_id": self.run_id}
            self._agent.publishes_to(TRACKER, experiment_id=facts.experiment_id, **where)
        values = dict(self._latest)
        passport = None
        metrics: list[door.Metric] = []
        for row in rows:
            told = of_the_run(row, self.before)
            values.update(told)
            metrics += door.metrics_of(told, row.timestamp, row.step)
            passport = row.passport or passport
        metrics += self._mirror.metrics(rows)
        due = passport is not None or time.monotonic() - self._tags_at >= _TAGS_EVERY_S
        tags = panels.tags(values, passport) if due else {}
        for start in range(0, max(1, len(metrics)), door.MOST_METRICS):
            self._door.send(self.run_id, metrics[start : start + door.MOST_METRICS], tags)
        self._mirror.arrived()
        self._latest = values
        self.passport = passport or self.passport
        self.final = self.final or any(row.final for row in rows)
        if due:
            self._tags_at = time.monotonic()

    def draw(self) -> None:
        """Give the run's experiment the charts, and write description and panels."""
        passport = self.passport
        facts = self._door.run(self.run_id)
        if not self._met:
            self._meet(facts.experiment_id)
        if passport is not None:
            note = panels.note(facts.tags.get(NOTE_TAG, ""), panels.headline(self._latest, passport))
            if note is not None:
                self._door.send(self.run_id, [], {NOTE_TAG: note})
            self._door.upload(facts, FOLDER, panels.files(self._latest, passport))
        self.dropped()

    def dropped(self) -> None:
        """Nothing is to be drawn any more."""
        self.passport = None
        self.final = False

    def _meet(self, experiment_id: str) -> None:
        view = panels.shared_view()
        if self._door.experiment_tags(experiment_id).get(VIEW_TAG) != view:
            self._door.tag_experiment(experiment_id, VIEW_TAG, view)
        self._met = True


def of_the_run(row: Row, before: Mapping[str, float] | None) -> dict[str, float]:
    """Give a row's values as those of the whole run, as far as its earlier processes are known."""
    return continued(row.values, before=before or {}, since={}) if row.values else {}


def before_this_process(metrics: Mapping[str, float]) -> dict[str, float]:
    """The sums of a resumed run's earlier processes, from its newest values."""
    names = (PREFIX + name for name in CUMULATIVE)
    return {name: metrics[name] for name in names if name in metrics}
