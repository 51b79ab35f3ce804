"""Finds run directories: the latest, one by id or unique prefix, one by path."""

from __future__ import annotations

import os
from pathlib import Path

from .format import LOG_FILE, RUN_FILE


def home() -> Path:
    """The state directory: $TRAINMETER_HOME, else the platform's own."""
    given = os.environ.get("TRAINMETER_HOME")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_state_dir("trainmeter"))


def runs_directory() -> Path:
    """Where run directories are made."""
    return home() / "runs"


def is_run(path: Path) -> bool:
    """Whether a directory is a run's: it has run.json, or at least a log."""
    return (path / RUN_FILE).is_file() or (path / LOG_FILE).is_file()


def all_runs() -> list[Path]:
    """All run directories, oldest first: their names begin with the UTC time of the start."""
    try:
        found = [path for path in runs_directory().iterdir() if is_run(path)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: path.name)


def latest_run() -> Path:
    """The run that was started last. Raises ValueError with one line when there is none."""
    runs = all_runs()
    if not runs:
        raise ValueError(f"no run yet in {runs_directory()}: start one with `tm train.py`")
    return runs[-1]


def find_run(ref: str) -> Path:
    """The run directory of a path, a run id, a directory name, or a unique beginning of one of these.

    Raises LookupError when nothing here has that name (it may be a tracker's), ValueError when several have.
    """
    path = Path(ref).expanduser()
    if path.is_dir() and is_run(path):
        return path
    if path.name in (RUN_FILE, LOG_FILE) and path.is_file():
        return path.parent
    if not ref or "/" in ref:
        raise LookupError(f"{ref!r} is not a run directory: it has no {RUN_FILE}")
    runs = all_runs()
    exact = [run for run in runs if ref in (run.name, _id(run))]
    if len(exact) == 1:
        return exact[0]
    begins = exact or [run for run in runs if run.name.startswith(ref) or _id(run).startswith(ref)]
    if not begins:
        raise LookupError(f"no run named {ref!r} in {runs_directory()}")
    if len(begins) > 1:
        raise ValueError(f"{ref!r} fits {len(begins)} runs, the latest is {begins[-1].name}: give more of it")
    return begins[0]


def _id(run: Path) -> str:
    return run.name.rsplit("-", 1)[-1]
