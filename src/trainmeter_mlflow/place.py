"""Where a store of MLflow's keeps its runs: its address, without secrets, and the pages that show a run."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Mapping

VIEW_KEY = "trainmeter"

_USER_INFO = re.compile(r"^([a-z][a-z0-9+.\-]*://)[^/@]*@", re.IGNORECASE)


def uri_of(store: Any) -> str:
    """Give the tracking URI that leads to a store, complete with any user and password in it."""
    get_host_creds = getattr(store, "get_host_creds", None)
    if get_host_creds is not None:
        bound = getattr(get_host_creds, "args", ())
        return bound[0] if bound and isinstance(bound[0], str) else str(get_host_creds().host)
    database = getattr(store, "db_uri", None)
    if isinstance(database, str):
        return absolute(database)
    root = getattr(store, "root_directory", None)
    if isinstance(root, str):
        return "file://" + os.path.abspath(root)
    import mlflow

    return str(mlflow.get_tracking_uri())


def absolute(database: str) -> str:
    """Give a database's URI with a relative file of sqlite's made absolute."""
    start = "sqlite:///"
    path = database[len(start) :]
    if not database.startswith(start) or path.startswith((os.sep, ":memory:")) or not path:
        return database
    return start + os.path.abspath(path)


def public_uri(uri: str) -> str:
    """Give the URI without user and password, fit to be written down."""
    return _USER_INFO.sub(r"\1", uri)


def pages(where: Mapping[str, str]) -> str | None:
    """Say how to look at a run: its address and that of the charts of its experiment, or the command that serves them.

    None while the experiment is not known.
    """
    uri, run_id, experiment = where.get("tracking_uri", ""), where.get("run_id", ""), where.get("experiment_id", "")
    if not experiment or not run_id:
        return None
    start = uri.rstrip("/")
    page = "#/experiments/" + experiment + "/runs"
    if not start.startswith(("http://", "https://")):
        if uri.startswith("databricks"):
            return "run " + run_id + " in experiment " + experiment + " of " + uri
        return "mlflow ui --backend-store-uri " + shlex.quote(uri) + ", in it " + page + "/" + run_id
    base = start + "/" + page
    return (
        base
        + "/"
        + run_id
        + " · charts of all its runs: "
        + base
        + "?viewStateShareKey="
        + VIEW_KEY
        + ("&compareRunsMode=CHART")
    )


def run_of(ref: str) -> tuple[str, str | None] | None:
    """Give (run id, server or None) of ``mlflow:RUN_ID`` or of a run page's URL; None for any other reference."""
    if ref.startswith("mlflow:"):
        return ref[len("mlflow:") :].lstrip("/"), None
    found = re.match(r"(https?://[^#]+?)/?#/(?:.*/)?runs/([0-9a-zA-Z]+)", ref)
    return (found.group(2), found.group(1)) if found else None
