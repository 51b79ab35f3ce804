"""The few requests that we make of a tracking store, and what their errors mean.

A server is asked by HTTP requests of our own length: the client's defaults (seven retries of up to two minutes) would
hold our thread for minutes, and could only be changed for the user's calls as well. Any other store is asked through
its own methods.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import tempfile
from typing import Any, Mapping, NamedTuple, Tuple

Metric = Tuple[str, float, int, int]
"""Key, value, timestamp in milliseconds, step."""

# What MLflow accepts at once.
MOST_METRICS = 1000

# A request that a healthy server has not answered by then is given up and repeated.
TIMEOUT_S = 4.0

GONE = "gone"
REFUSED = "refused"
LATER = "later"

_LONGEST_KEY = 250

# An artifact address without a host: the tracking server passes the files on.
_THROUGH_SERVER = "mlflow-artifacts:/"
_FORBIDDEN = re.compile(r"[^\w\-. :/]")


class Facts(NamedTuple):
    """What a run's record says."""

    experiment_id: str
    artifact_uri: str
    deleted: bool
    tags: dict[str, str]
    metrics: dict[str, float]
    """Newest values."""


def key_of(name: str) -> str:
    """Give a series' name as MLflow accepts it: letters, digits and ``_-. :/``, no empty or relative part."""
    parts = [part for part in _FORBIDDEN.sub("_", name).split("/") if part.strip(".")]
    return "/".join(parts)[:_LONGEST_KEY]


def metrics_of(values: Mapping[str, float], timestamp: int, step: int) -> list[Metric]:
    """Give a row as metrics, finite values only: an infinite one would be stored as the largest number there is."""
    return [(key_of(name), float(value), timestamp, step) for name, value in values.items() if math.isfinite(value)]


def meaning(error: Exception) -> str:
    """Say what an error of a request means: the run is GONE, the request is REFUSED, or it may go well LATER."""
    code = str(getattr(error, "error_code", ""))
    if code == "RESOURCE_DOES_NOT_EXIST":
        return GONE
    if code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "INVALID_STATE"):
        # MLflow answers so for a deleted run, too.
        return GONE if "deleted" in str(error) or "'active' state" in str(error) else REFUSED
    # What a server or a database does not take now it may take later; an artifact store that has no credentials has
    # none later either.
    return LATER if isinstance(error, (OSError, _mlflow_exception())) or _is_database(error) else REFUSED


def _mlflow_exception() -> Any:
    return importlib.import_module("mlflow.exceptions").MlflowException


def _is_database(error: Exception) -> bool:
    return type(error).__module__.startswith("sqlalchemy")


class StoreDoor:
    """A store that is no server: a database or a directory."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def send(self, run_id: str, metrics: list[Metric], tags: Mapping[str, str]) -> None:
        """Write metrics and tags to a run."""
        from mlflow.entities import Metric as Entity
        from mlflow.entities import RunTag

        self._store.log_batch(
            run_id,
            [Entity(key, value, timestamp, step) for key, value, timestamp, step in metrics],
            [],
            [RunTag(key, value) for key, value in tags.items()],
        )

    def run(self, run_id: str) -> Facts:
        """Read a run's record."""
        run = self._store.get_run(run_id)
        return Facts(
            str(run.info.experiment_id),
            str(run.info.artifact_uri),
            run.info.lifecycle_stage == "deleted",
            dict(run.data.tags),
            dict(run.data.metrics),
        )

    def experiment_tags(self, experiment_id: str) -> dict[str, str]:
        """Read an experiment's tags."""
        return dict(self._store.get_experiment(experiment_id).tags)

    def tag_experiment(self, experiment_id: str, key: str, value: str) -> None:
        """Set one tag of an experiment."""
        from mlflow.entities import ExperimentTag

        self._store.set_experiment_tag(experiment_id, ExperimentTag(key, value))

    @staticmethod
    def upload(facts: Facts, folder: str, files: Mapping[str, str]) -> None:
        """Write text files into a folder of the run's artifacts."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = get_artifact_repository(facts.artifact_uri)
        for path in _written(files):
            repository.log_artifact(path, folder)


class ServerDoor:
    """A tracking server, asked through its REST interface with the credentials of the user's own store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def send(self, run_id: str, metrics: list[Metric], tags: Mapping[str, str]) -> None:
        """Write metrics and tags to a run."""
        self._ask(
            "POST",
            "runs/log-batch",
            {
                "run_id": run_id,
                "metrics": [{"key": k, "value": v, "timestamp": t, "step": s} for k, v, t, s in metrics],
                "tags": [{"key": key, "value": value} for key, value in tags.items()],
            },
        )

    def run(self, run_id: str) -> Facts:
        """Read a run's record."""
        run = self._ask("GET", "runs/get", {"run_id": run_id})["run"]
        info, data = run["info"], run.get("data", {})
        return Facts(
            str(info.get("experiment_id", "")),
            str(info.get("artifact_uri", "")),
            info.get("lifecycle_stage") == "deleted",
            {tag["key"]: tag.get("value", "") for tag in data.get("tags", ())},
            {each["key"]: float(each.get("value", 0.0)) for each in data.get("metrics", ())},
        )

    def experiment_tags(self, experiment_id: str) -> dict[str, str]:
        """Read an experiment's tags."""
        found = self._ask("GET", "experiments/get", {"experiment_id": experiment_id})["experiment"]
        return {tag["key"]: tag.get("value", "") for tag in found.get("tags", ())}

    def tag_experiment(self, experiment_id: str, key: str, value: str) -> None:
        """Set one tag of an experiment."""
        told = {"experiment_id": experiment_id, "key": key, "value": value}
        self._ask("POST", "experiments/set-experiment-tag", told)

    def upload(self, facts: Facts, folder: str, files: Mapping[str, str]) -> None:
        """Write text files into a folder of the run's artifacts, through the server where it keeps them."""
        root = facts.artifact_uri
        if root.startswith(_THROUGH_SERVER):
            start = "/api/2.0/mlflow-artifacts/artifacts/" + root[len(_THROUGH_SERVER) :].strip("/") + "/" + folder
            for name, text in files.items():
                self._request("PUT", start + "/" + name, data=text.encode("utf-8", "backslashreplace"))
            return
        StoreDoor.upload(facts, folder, files)

    def _ask(self, method: str, what: str, told: Mapping[str, Any]) -> Any:
        return self._request(method, "/api/2.0/mlflow/" + what, **{"params" if method == "GET" else "json": told})

    def _request(self, method: str, endpoint: str, **content: Any) -> Any:
        from mlflow.utils.rest_utils import http_request, verify_rest_response

        creds = self._store.get_host_creds()
        response = http_request(creds, endpoint, method, max_retries=0, timeout=TIMEOUT_S, **content)
        return verify_rest_response(response, endpoint).json()


Door = Any
"""A `StoreDoor` or a `ServerDoor`."""


def door_of(store: Any) -> Door:
    """Give the way to ask a store."""
    return ServerDoor(store) if hasattr(store, "get_host_creds") else StoreDoor(store)


def _written(files: Mapping[str, str]) -> Any:
    """Yield the paths of text files in a temporary directory, which goes when all were taken."""
    with tempfile.TemporaryDirectory(prefix="trainmeter-") as directory:
        for name, text in files.items():
            path = os.path.join(directory, name)
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            yield path
