"""Where a run can be looked at: its URL, or the directory of an offline run; pure."""

from __future__ import annotations

import os
import shlex
from typing import Any, Mapping

TRACKER = "wandb"
_RESUMES = ("allow", "must", "auto", "true")


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


def named_by(environ: Mapping[str, str]) -> tuple[str, bool] | None:
    """Name the run that an environment asks for, and say whether it is to be resumed; None where it names none."""
    run_id = environ.get("WANDB_RUN_ID")
    if not run_id:
        return None
    place = "/".join((environ.get("WANDB_ENTITY", ""), environ.get("WANDB_PROJECT", ""), run_id)).strip("/")
    return TRACKER + ":" + place, environ.get("WANDB_RESUME", "").lower() in _RESUMES


def is_offline(settings: Any) -> bool:
    """Say whether a run writes to its directory only."""
    return str(getattr(settings, "mode", "")) == "offline"
