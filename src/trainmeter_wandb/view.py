"""`tm wandb view ENTITY/PROJECT`: saves a workspace view of our series, laid out; saved again, it is the same view.

It is known by its internal name, which no view that people make has; every other view stays as it is.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from trainmeter_core.series import LADDER_RUNGS, PREFIX, TIME_KINDS

from .panels import MFU, PASSPORT

NAME = "trainmeter"
KEY = "trainmeter"
"""What stands after ``?nw=`` in the view's address."""

# Section -> charts: title, series without prefix.
SECTIONS: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    (
        "Speed and utilization",
        (
            ("MFU and HFU (%)", ("mfu_pct", "hfu_pct")),
            ("Tokens per second", ("tokens_per_s", "tokens_per_s_per_gpu")),
            ("Seconds per step", ("step_time_s",)),
            ("TFLOP/s per GPU", ("tflops_per_gpu",)),
        ),
    ),
    ("Utilization ladder", (("Rungs (%)", tuple("ladder/" + rung for rung in LADDER_RUNGS)),)),
    ("Where the time goes", (("Share of wall time (%)", tuple("time/" + kind for kind in TIME_KINDS)),)),
    (
        "Progress",
        (
            ("Tokens", ("tokens",)),
            ("FLOPs", ("flops", "flops_required")),
            ("Budget done (%)", ("progress_pct",)),
            ("Seconds left", ("eta_s",)),
        ),
    ),
    (
        "GPU",
        (
            ("Power (W)", ("gpu/power_w",)),
            ("Memory in use (bytes)", ("gpu/mem_used_bytes",)),
            ("Arithmetic intensity (FLOP/byte)", ("intensity/observed", "intensity/model", "intensity/ridge")),
        ),
    ),
)


def save(entity: str, project: str) -> str:
    """Save the view and give its URL. Raises ValueError with one line when that is not possible."""
    try:
        reports: Any = importlib.import_module("wandb_workspaces.reports.v2")
        workspaces: Any = importlib.import_module("wandb_workspaces.workspaces")
        internal: Any = importlib.import_module("wandb_workspaces.workspaces.internal")
    except ImportError as error:
        raise ValueError("saving a view needs wandb-workspaces: pip install 'trainmeter[wandb-view]'") from error
    sections = [
        workspaces.Section(name=name, is_open=place < 3, panels=[_lines(reports, *chart) for chart in charts])  # noqa: PLR2004
        for place, (name, charts) in enumerate(SECTIONS)
    ]
    closing = [reports.MediaBrowser(title=key.partition("/")[2], media_keys=[key]) for key in (PASSPORT, MFU)]
    sections.append(workspaces.Section(name="Passport", is_open=True, panels=closing))
    try:
        found = _found(internal, entity, project)
        title = found.get("displayName") or NAME  # the user may have renamed it
        view = workspaces.Workspace(entity=entity, project=project, name=title, sections=sections)
        view._internal_name = f"nw-{KEY}-v"  # noqa: SLF001 - the form of all saved views
        view._internal_id = found.get("id") or ""  # noqa: SLF001 - how the library updates one
        view.save()
    except Exception as error:  # the client's own errors, requests' and pydantic's
        raise ValueError("the view cannot be saved: " + " ".join(str(error).split())[:200]) from error
    return str(view.url)


def _found(internal: Any, entity: str, project: str) -> dict[str, Any]:
    """Give the view of an earlier call; empty when there is none."""
    try:
        found: dict[str, Any] = internal.get_view_dict(entity, project, KEY)
    except ValueError:  # the library's word for "not found"
        return {}
    return found


def _lines(reports: Any, title: str, series: tuple[str, ...]) -> Any:
    return reports.LinePlot(title=title, x=PREFIX + "step", y=[PREFIX + name for name in series])


@click.command("view")
@click.argument("project", metavar="ENTITY/PROJECT")
def command(project: str) -> int:
    """Save a workspace view with trainmeter's series in sections, or bring it up to date. No other view is touched."""
    entity, slash, name = project.partition("/")
    if not (entity and slash and name) or "/" in name:
        raise click.UsageError("name the project as ENTITY/PROJECT")
    try:
        click.echo(save(entity, name))
    except ValueError as error:
        click.echo(f"tm wandb view: {error}", err=True)
        sys.exit(2)
    return 0
