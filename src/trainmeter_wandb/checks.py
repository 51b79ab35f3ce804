"""The Weights & Biases lines of `tm doctor`."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

from trainmeter_core.hookspecs import Check

from .tap import FINISH, LOG, MODULE, START, found


def checks() -> list[Check]:
    """Say whether the client is here, whether the tap fits it, and whether it can scrape our endpoint."""
    try:
        release = version("wandb")
    except PackageNotFoundError:
        return [Check("wandb", True, "not installed; a script that uses it would say so")]
    try:
        cls = importlib.import_module(MODULE).Run
        settings = importlib.import_module("wandb").Settings
    except (ImportError, AttributeError) as error:
        return [Check("wandb", False, release + " cannot be imported: " + str(error), "pip install -U wandb")]
    points = {"log": LOG, "start": START, "finish": FINISH}
    missing = [name for name, point in points.items() if found(cls, point) is None]
    advice = "update trainmeter; until then less or nothing is published there"
    tap = (
        Check("wandb", False, release + " has another Run than trainmeter knows: no " + ", ".join(missing), advice)
        if missing
        else Check("wandb", True, release + ", the tap fits")
    )
    return [tap, _scrape(settings)]


def _scrape(settings: type) -> Check:
    fields = getattr(settings, "model_fields", None) or getattr(settings, "__annotations__", {})
    if "x_stats_open_metrics_endpoints" in fields:
        return Check("wandb system metrics", True, "the client scrapes our series into its System section")
    return Check(
        "wandb system metrics",
        False,
        "this client does not know how to scrape an endpoint",
        "pip install -U wandb; the series are in the run's own charts as well",
    )
