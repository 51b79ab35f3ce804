"""Where a run can be looked at: its URL, or the directory of an offline run; pure."""

from __future__ import annotations

import os
import shlex
from typing import Any, Mapping

TRACKER = "wandb"


def place_of(run: Any) -> dict[str, str]:
    """Say where a live run is kept: its id, its project, its URL when it is online, else its directory."""
    settings = run.settings
    told = {"id": str(run.id or ""), "entity": str(run.entity or ""), "project": str(run.project or "")}
    url = None if is_offline(settings) else run.url
    told["url"] = str(url or "")
    told["directory"] = os.path.dirname(str(run.dir)) if is_offline(settings) else ""
    return {name: value for name, value in told.items() if value}


def line(place: Mapping[str, str]) -> str | None:
    """Give the URL, or the command that shows an offline run in the terminal."""
    if place.get("url"):
        return place["url"]
    directory = place.get("directory")
    return "wandb leet " + shlex.quote(directory) if directory else None


def is_offline(settings: Any) -> bool:
    """Say whether a run writes to its directory only."""
    return str(getattr(settings, "mode", "")) == "offline"
