"""Sends what a run left because its tracking store did not answer, in a process of tm's own; each row once."""

from __future__ import annotations

import json
import os
from typing import Any

from trainmeter_core.hookspecs import Delivered
from trainmeter_core.passport import schema
from trainmeter_core.resumption import continued
from trainmeter_core.runlog.format import PASSPORT_FILE
from trainmeter_core.series import CUMULATIVE, PREFIX

from . import door, panels, spool
from .run_page import FOLDER, NOTE_TAG
from .stores import history, open_store

_ROWS_AT_ONCE = 10


def deliver(run_directory: str) -> list[Delivered]:
    """Send every row that waits in a run directory.

    What was sent is struck off at once. A crash in between may send ten rows again: they carry the timestamps of the
    first time, by which a database or server knows them. Rows of a deleted run are struck off, too.
    """
    if not spool.read(run_directory):
        return []
    with spool.locked(run_directory):
        told = []
        for uri, run_id in dict.fromkeys((each.tracking_uri, each.run_id) for each in spool.read(run_directory)):
            told.append(_deliver_run(run_directory, uri, run_id))
    return told


def _deliver_run(run_directory: str, uri: str, run_id: str) -> Delivered:
    place = "run " + run_id + " at " + uri
    mine = [each for each in spool.read(run_directory) if (each.tracking_uri, each.run_id) == (uri, run_id)]
    sent = 0
    try:
        store = open_store(uri)
        opened = door.door_of(store)
        before = _before(store, run_id, [row for row in mine if not row.whole])
        for start in range(0, len(mine), _ROWS_AT_ONCE):
            rows = mine[start : start + _ROWS_AT_ONCE]
            metrics = [metric for row in rows for metric in _metrics(row, before)]
            for first in range(0, len(metrics), door.MOST_METRICS):
                opened.send(run_id, metrics[first : first + door.MOST_METRICS], {})
            if any(row.panels for row in rows):
                _draw(opened, run_directory, run_id)
            _strike(run_directory, rows)
            sent += len(rows)
    except ImportError:
        reason = "mlflow is not installed where tm is: pip install 'trainmeter[mlflow]'"
        return Delivered(sent, len(mine) - sent, place, reason)
    except Exception as error:  # noqa: BLE001 - requests, SQLAlchemy, MLflow and the system each raise their own
        if door.meaning(error) == door.GONE:
            _strike(run_directory, mine)
            return Delivered(sent, 0, place, "the run was deleted")
        return Delivered(sent, len(mine) - sent, place, " ".join(str(error).split())[:300])
    return Delivered(sent, 0, place)


def _before(store: Any, run_id: str, rows: list[spool.Parcel]) -> dict[str, float]:
    """The sums of the run's earlier processes, for rows of one that could not ask for them while it lasted."""
    if not rows:
        return {}
    first = min(row.timestamp for row in rows)
    found: dict[str, float] = {}
    for name in (PREFIX + each for each in CUMULATIVE):
        for point in history(store, run_id, name):
            if point.timestamp < first:
                found[name] = max(found.get(name, 0.0), float(point.value))
    return found


def _metrics(row: spool.Parcel, before: dict[str, float]) -> list[door.Metric]:
    values = row.values if row.whole else continued(row.values, before=before, since={})
    return door.metrics_of(values, row.timestamp, row.step)


def _strike(run_directory: str, rows: list[spool.Parcel]) -> None:
    spool.replace(run_directory, [each for each in spool.read(run_directory) if each not in rows])


def _draw(opened: door.Door, run_directory: str, run_id: str) -> None:
    """Write the panels from the passport that tm wrote at the run's end, and from the newest values there are."""
    passport = _passport(run_directory)
    if passport is None:
        return
    facts = opened.run(run_id)
    newest = {name: value for name, value in facts.metrics.items() if name.startswith(PREFIX)}
    note = panels.note(facts.tags.get(NOTE_TAG, ""), panels.headline(newest, passport))
    told = panels.tags(newest, passport)
    opened.send(run_id, [], {**told, **({NOTE_TAG: note} if note is not None else {})})
    opened.upload(facts, FOLDER, panels.files(newest, passport))


def _passport(run_directory: str) -> Any:
    try:
        with open(os.path.join(run_directory, PASSPORT_FILE), encoding="utf-8") as file:
            passport = json.load(file)
    except (OSError, ValueError):
        # tm was killed before it wrote one.
        return None
    return None if schema.problems(passport) else passport
