"""Reads a run back from MLflow."""

from __future__ import annotations

from typing import Any


def open_run(run_id: str, server: str | None) -> Any:
    """Not yet."""
    raise ValueError("mlflow:" + run_id + " cannot be read yet" + (server or ""))
