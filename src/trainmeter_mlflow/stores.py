"""Opens a tracking store in a process of tm's own, and reads one series of a run page by page."""

from __future__ import annotations

import os
from typing import Any, Iterator

from .place import public_uri

# Of 25,000 points a server on two busy cores needed longer than 20 s; this many are well within the patience below.
PAGE = 10_000

# In our own process the client's defaults of minutes may be shortened; what the user set stays.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "60"}


def open_store(uri: str) -> Any:
    """Give the tracking store at an address that holds no secrets; those come from MLflow's own settings.

    Raises ImportError where MLflow is missing, and what MLflow raises for an address that leads nowhere.
    """
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking._tracking_service.utils import _get_store

    own = os.environ.get("MLFLOW_TRACKING_URI", "")
    return _get_store(own if own and public_uri(own) == uri else uri)


def history(store: Any, run_id: str, key: str) -> Iterator[Any]:
    """Every value under one name, page by page, with ``value``, ``step`` and ``timestamp`` in milliseconds."""
    token = None
    while True:
        page = store.get_metric_history(run_id, key, max_results=PAGE, page_token=token)
        yield from page
        token = getattr(page, "token", None)
        if not token:
            return
