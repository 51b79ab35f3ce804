"""Writes a finished run into W&B, or into an offline run's directory; again, it adds only what is missing."""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from . import closing
from .publish import AXIS, GLOB
from .read import read_file
from .summary import CONFIG_KEY, config_of

if TYPE_CHECKING:
    from types import ModuleType

DEFAULT_PROJECT = "trainmeter"

# The machine that exports is not the one that trained.
_QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "x_disable_stats": True,
    "x_disable_meta": True,
}


def export(passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]) -> str:
    """Write the rows under the run's own id, one history row each at its index, and the closing row after them.

    `rows` have ``time`` and ``series``. Gives the run's URL or the directory. Raises ValueError with one line when it
    cannot be written.
    """
    try:
        import wandb
    except ImportError as error:
        raise ValueError("exporting needs the W&B client: pip install wandb") from error
    offline = bool(target.get("offline"))
    directory = os.path.abspath(target.get("directory") or os.environ.get("WANDB_DIR") or ".")
    run_id = re.sub(r"[^A-Za-z0-9_.-]", "_", str(passport["identity"]["run_id"] or ""))
    if not run_id:
        raise ValueError("the run has no id, which the export is known by")
    if offline:
        there = _complete_export(directory, run_id)
        if there is not None:
            return there
    try:
        run = _begin(wandb, run_id, passport=passport, target=target, directory=directory)
        _write(run, passport, rows)
        place = os.path.dirname(run.dir) if offline else str(run.url)
        run.finish()
    except Exception as error:  # the client's own errors have no common base
        raise ValueError("W&B did not take the run: " + " ".join(str(error).split())[:200]) from error
    return place


def _begin(
    wandb: ModuleType, run_id: str, *, passport: Mapping[str, Any], target: Mapping[str, str], directory: str
) -> Any:
    offline = bool(target.get("offline"))
    settings: dict[str, Any] = {**_QUIET, **({"base_url": target["server"]} if target.get("server") else {})}
    known = {name: value for name, value in settings.items() if name in wandb.Settings.model_fields}
    identity = passport["identity"]
    run = wandb.init(
        id=run_id,
        name=target.get("run") or identity.get("name") or identity["script"],
        project=target.get("project") or DEFAULT_PROJECT,
        entity=target.get("entity"),
        mode="offline" if offline else "online",
        resume=None if offline else "allow",
        dir=directory,
        settings=wandb.Settings(**known),
    )
    run.define_metric(GLOB, step_metric=AXIS)
    run.config.update({CONFIG_KEY: config_of(passport)}, allow_val_change=True)
    return run


def _write(run: Any, passport: Mapping[str, Any], rows: Iterable[Any]) -> None:
    """What the run holds already is at the front: the client says at which step a resumed run goes on."""
    begin = int(getattr(run, "starting_step", 0) or 0)
    last: dict[str, float] = {}
    index = -1
    for index, row in enumerate(rows):
        last.update(row.series)
        if index >= begin:
            run.log({"_timestamp": row.time, **row.series}, step=index, commit=True)
    if index + 1 >= begin:
        closing.close(run, type(run)._log, last, passport)  # noqa: SLF001 - as the tap does it


def _complete_export(directory: str, run_id: str) -> str | None:
    """Give the directory of an earlier offline export that was finished; one that was cut short is removed."""
    pattern = os.path.join(glob.escape(directory), "wandb", "offline-run-*-" + run_id, "run-" + run_id + ".wandb")
    for path in sorted(glob.glob(pattern)):
        try:
            complete = read_file(path).exit_code is not None
        except ValueError:
            complete = False
        if complete:
            return os.path.dirname(path)
        shutil.rmtree(os.path.dirname(path))
    return None
