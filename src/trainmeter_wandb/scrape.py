"""The environment variable by which the client's own sampler scrapes our endpoint into its System section; pure."""

from __future__ import annotations

import json
from typing import Mapping

ENDPOINTS = "WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"
NAME = "trainmeter"

_STATS_OFF = ("WANDB_X_DISABLE_STATS", "WANDB__DISABLE_STATS")
_TRUE = ("1", "true", "yes", "on", "t", "y")


def environment(metrics_url: str, base: Mapping[str, str]) -> dict[str, str]:
    """Give the variable to set, beside the user's own endpoints.

    Nothing when statistics are off, or when the user's variable is of a form that we cannot add to. Endpoints that a
    script gives in its Settings replace the variable's in the client.
    """
    if not metrics_url or any(base.get(name, "").lower() in _TRUE for name in _STATS_OFF):
        return {}
    theirs = base.get(ENDPOINTS, "")
    try:
        endpoints = json.loads(theirs) if theirs.strip() else {}
    except ValueError:
        return {}
    if not isinstance(endpoints, dict):
        return {}
    return {ENDPOINTS: json.dumps({NAME: metrics_url, **endpoints})}
