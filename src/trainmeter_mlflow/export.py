"""Writes a finished run into MLflow; again, it adds only what is missing."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping

from trainmeter_core.series import PREFIX

from . import door, panels
from .place import pages, public_uri, uri_of
from .run_page import FOLDER, NOTE_TAG, VIEW_TAG
from .stores import history, open_store

DEFAULT_EXPERIMENT = "trainmeter"

# By this tag a repeated export knows the run that it made.
RUN_TAG = "trainmeter.export"

_ROWS_AT_ONCE = 10


def export(passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]) -> str:
    """Write the rows, each at its optimizer step, then tags, description and panels.

    `rows` have ``step``, ``time`` in seconds and ``series``. Gives where the run can be looked at. Raises ValueError
    with one line when it cannot be written.
    """
    run_id = str(passport["identity"]["run_id"] or "")
    if not run_id:
        raise ValueError("the run has no id, which the export is known by")
    try:
        import mlflow

        server = target.get("server") or public_uri(str(mlflow.get_tracking_uri()))
        if target.get("directory"):
            server = "sqlite:///" + os.path.join(os.path.abspath(target["directory"]), "mlflow.db")
        store = open_store(server)
        client = mlflow.MlflowClient(uri_of(store))
        return _write(client, store, run_id, passport=passport, target=target, rows=rows)
    except ImportError as error:
        raise ValueError("exporting needs MLflow: pip install 'trainmeter[mlflow]'") from error
    except Exception as error:  # requests, SQLAlchemy and MLflow each raise their own
        raise ValueError("MLflow did not take the run: " + " ".join(str(error).split())[:200]) from error


def _write(
    client: Any, store: Any, key: str, *, passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]
) -> str:
    name = target.get("project") or DEFAULT_EXPERIMENT
    found = client.get_experiment_by_name(name)
    experiment_id = found.experiment_id if found is not None else client.create_experiment(name)
    run_id = _run(client, experiment_id, key, passport, target.get("run"))
    opened = door.door_of(store)
    newest = _send(opened, run_id, rows, after=_last_time(store, run_id))
    facts = opened.run(run_id)
    latest = {**facts.metrics, **newest}
    told = panels.tags(latest, passport)
    note = panels.note(facts.tags.get(NOTE_TAG, ""), panels.headline(latest, passport))
    opened.send(run_id, [], {**told, **({NOTE_TAG: note} if note is not None else {})})
    opened.upload(facts, FOLDER, panels.files(latest, passport))
    opened.tag_experiment(experiment_id, VIEW_TAG, panels.shared_view())
    how = passport["ends"]["how"]
    client.set_terminated(run_id, "FINISHED" if how == "finished" else "FAILED" if how else "KILLED")
    where = {"tracking_uri": public_uri(uri_of(store)), "run_id": run_id, "experiment_id": str(experiment_id)}
    return str(pages(where))


def _run(client: Any, experiment_id: str, key: str, passport: Mapping[str, Any], name: str | None) -> str:
    """The run that an earlier export made, else a new one."""
    quoted = key.replace("'", "")
    known = client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{quoted}'", max_results=1)
    if known:
        return str(known[0].info.run_id)
    identity = passport["identity"]
    named = name or identity.get("name") or identity["script"] or None
    made = client.create_run(experiment_id, run_name=named, tags={RUN_TAG: quoted})
    return str(made.info.run_id)


def _last_time(store: Any, run_id: str) -> int:
    return max((each.timestamp for each in history(store, run_id, PREFIX + "step")), default=-1)


def _send(opened: door.Door, run_id: str, rows: Iterable[Any], after: int) -> dict[str, float]:
    """Write the rows later than a time in milliseconds; gives the newest value of every series."""
    newest: dict[str, float] = {}
    waiting: list[door.Metric] = []
    count = 0
    for row in rows:
        values = {name if name.startswith(PREFIX) else PREFIX + name: value for name, value in row.series.items()}
        newest.update(values)
        timestamp = int(row.time * 1000)
        if timestamp <= after:
            continue
        waiting += door.metrics_of(values, timestamp, row.step)
        count += 1
        if count % _ROWS_AT_ONCE == 0:
            waiting = _flushed(opened, run_id, waiting)
    _flushed(opened, run_id, waiting)
    return newest


def _flushed(opened: door.Door, run_id: str, metrics: list[door.Metric]) -> list[door.Metric]:
    for start in range(0, len(metrics), door.MOST_METRICS):
        opened.send(run_id, metrics[start : start + door.MOST_METRICS], {})
    return []
