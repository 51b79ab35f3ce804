"""Reads a run back from MLflow: the passport that was left there, else what its metrics, params and system series tell.

Histories come page by page, of a few metrics only; memory does not grow with the run.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.passport import schema
from trainmeter_core.passport.restore import restore
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RankTotals, RunRecord
from trainmeter_core.run_tables import Loss, Statistics
from trainmeter_core.series import PREFIX

from .place import public_uri, uri_of
from .run_page import FOLDER, TRACKER
from .stores import history, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

MOST_HISTORIES = 6
_LARGEST_PASSPORT = 16 << 20
_NO_CODE = {"FINISHED": 0, "FAILED": 1}
_GPU_READINGS = {
    "utilization_percentage": "gpu_util_pct",
    "memory_usage_megabytes": "mem_used_bytes",
    "power_usage_watts": "power_w",
}


def open_run(run_id: str, server: str | None) -> RunRecord:
    """Give a run by its id. Raises ValueError with one line when there is none, or the server does not answer."""
    try:
        store = _store(server)
        run = store.get_run(run_id)
    except ImportError as error:
        raise ValueError("reading a run of MLflow needs it installed: pip install 'trainmeter[mlflow]'") from error
    except Exception as error:  # requests, SQLAlchemy and MLflow each raise their own
        where = f" at {public_uri(server)}" if server else ""
        raise ValueError(f"MLflow has no run {run_id}{where}: {_one_line(error)}") from error
    try:
        return _read(store, run)
    except Exception as error:  # as above
        raise ValueError(f"MLflow did not answer while run {run_id} was read: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _read(store: Any, run: Run) -> RunRecord:
    passport = _passport(store, run)
    record = RunRecord() if passport is None else restore(passport)
    at = 0 if passport is None else int(passport["data"]["steps"]["value"])
    if passport is None:
        _describe(record, store, run)
    _count(record, run, at)
    if not record.losses:
        record.losses = _losses(store, run)
    return record


def _store(server: str | None) -> Any:
    if server is None:
        import mlflow

        server = public_uri(str(mlflow.get_tracking_uri()))
    return open_store(server)


def _passport(store: Any, run: Run) -> dict[str, Any] | None:
    """The run's own passport; None where it has none, or one that was damaged."""
    from mlflow import MlflowClient

    listed = MlflowClient(uri_of(store))
    path = FOLDER + "/passport.json"
    try:
        sizes = {each.path: each.file_size for each in listed.list_artifacts(run.info.run_id, FOLDER)}
        if not 0 < (sizes.get(path) or 0) <= _LARGEST_PASSPORT:
            return None
        with tempfile.TemporaryDirectory(prefix="trainmeter-") as directory:
            found = listed.download_artifacts(run.info.run_id, path, directory)
            with open(found, encoding="utf-8") as file:
                passport = json.load(file)
    except Exception:  # noqa: BLE001 - an artifact store of any kind that does not answer: the metrics still do
        return None
    return passport if isinstance(passport, dict) and not schema.problems(passport) else None


def _describe(record: RunRecord, store: Any, run: Run) -> None:
    """What MLflow itself knows of a run that left no passport."""
    known, tags = record.identity, run.data.tags
    known.run_id = run.info.run_id
    known.name = run.info.run_name or Absent("the run has no name")
    known.script = tags.get("mlflow.source.name") or Absent("MLflow does not tell the script")
    if tags.get("mlflow.source.git.commit"):
        known.git_commit = tags["mlflow.source.git.commit"]
    if run.info.start_time:
        known.started = run.info.start_time / 1000
    if run.info.start_time and run.info.end_time:
        record.end.seconds = (run.info.end_time - run.info.start_time) / 1000
        record.last_seen = run.info.end_time / 1000
    status = _NO_CODE.get(str(run.info.status))
    record.end.code = Absent("MLflow says " + str(run.info.status)) if status is None else status
    record.end.signal = Absent("MLflow does not tell signals")
    where = {"tracking_uri": public_uri(uri_of(store)), "run_id": run.info.run_id}
    record.trackers = [{"tracker": TRACKER, "where": {**where, "experiment_id": str(run.info.experiment_id)}}]
    record.model = Absent("MLflow keeps no description of the model")
    record.gpus = _gpus(run.data.metrics)


def _count(record: RunRecord, run: Run, at: int) -> None:
    """Steps and tokens by the run's series, where these go on after the passport, or where there is none."""
    metrics = run.data.metrics
    steps = int(metrics.get(PREFIX + "step", 0))
    if steps <= at:
        return
    before = record.ranks.get(0, RankTotals())
    totals = RankTotals(processes=before.processes, startup_s=before.startup_s, steps=steps, last_step=steps)
    totals.skipped = int(metrics.get(PREFIX + "steps_skipped", 0))
    tokens = metrics.get(PREFIX + "tokens")
    totals.tokens = Absent("no such series was published") if tokens is None else int(tokens)
    totals.samples = totals.micro_batches = Absent(
        f"after step {at} no passport was written; later steps are known by their series alone"
    )
    record.summed = totals


def _losses(store: Any, run: Run) -> dict[str, Loss]:
    """First, last and lowest of the few metrics that are named like a loss, the shortest names first."""
    named = [key for key in run.data.metrics if "loss" in key.lower() and not key.startswith(PREFIX)]
    found: dict[str, Loss] = {}
    for key in sorted(named, key=lambda key: (len(key), key))[:MOST_HISTORIES]:
        for each in history(store, run.info.run_id, key):
            loss = Loss.of(float(each.value), int(each.step))
            found[key] = found[key].then(loss) if key in found else loss
    return found


def _gpus(metrics: Mapping[str, float]) -> dict[str, dict[str, Statistics]]:
    """The newest readings of MLflow's own monitor, by GPU."""
    found: dict[str, dict[str, Statistics]] = {}
    for key, value in metrics.items():
        _, _, reading = key.partition("system/gpu_")
        index, _, name = reading.partition("_")
        if index.isdigit() and name in _GPU_READINGS:
            scale = 1e6 if name.endswith("megabytes") else 1.0
            table = found.setdefault("gpu " + index + " (newest reading)", {})
            table.setdefault(_GPU_READINGS[name], Statistics()).add(value * scale)
    return found
