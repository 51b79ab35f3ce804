"""`tm runs`: the runs on this machine; list them, remove some."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.passport.markdown import figure
from trainmeter_core.passport.sheet import reading
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import LOG_FILE, PASSPORT_FILE, RUN_FILE
from trainmeter_core.runlog.locate import all_runs, find_run, runs_directory

from .passport import of_directory

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("run", "started (UTC)", "script", "steps", "tokens", "MFU", "tracker", "end", "directory")
STILL_WRITING_S = 60.0


def summary(directory: Path) -> dict[str, Any]:
    """One run's line by column; n/a for what is not known, and the reason instead of numbers for a broken run."""
    try:
        passport = of_directory(directory)
    except (ValueError, OSError) as error:  # an edited passport, a directory of another user
        return {**dict.fromkeys(COLUMNS, "n/a"), "run": directory.name, "end": str(error), "directory": str(directory)}
    identity = passport["identity"]
    trackers = ", ".join(dict.fromkeys(each["tracker"] for each in identity["trackers"]))
    return {
        "run": identity["run_id"] or "n/a",
        "started (UTC)": identity["started"] or "n/a",
        "script": identity["script"] or "n/a",
        "steps": _short(reading(passport, "data.steps"), ""),
        "tokens": _short(reading(passport, "data.tokens"), ""),
        "MFU": _short(reading(passport, "efficiency.mfu_pct"), "%"),
        "tracker": trackers or "none",
        "end": passport["ends"]["how"] or ("running" if is_running(directory) else "not recorded"),
        "directory": str(directory),
    }


def _short(value: float | Absent, unit: str) -> str:
    return "n/a" if isinstance(value, Absent) else figure(value, unit).strip()


def is_running(directory: Path) -> bool:
    """Whether a run that has no passport yet was written to in the last minute: tm writes every second."""
    if (directory / PASSPORT_FILE).exists():
        return False
    newest = max((file.stat().st_mtime for file in directory.glob(f"**/{LOG_FILE}")), default=0.0)
    return time.time() - newest < STILL_WRITING_S


def remove(directory: Path) -> None:
    """Delete one run directory. Raises ValueError for a directory outside the runs, or of a run that goes on."""
    runs = runs_directory().resolve()
    if directory.is_symlink() or directory.resolve().parent != runs:
        raise ValueError(f"{directory} is not in {runs}: remove it by hand")
    if not (directory / RUN_FILE).is_file():
        raise ValueError(f"{directory} has no {RUN_FILE}: remove it by hand")
    if summary(directory)["end"] == "running":
        raise ValueError(f"{directory.name} is still running")
    shutil.rmtree(directory)


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """The runs on this machine."""
    if context.invoked_subcommand is None:
        context.invoke(list_runs)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="one JSON object per run and line")
def list_runs(as_json: bool = False) -> None:
    """Runs, oldest first; tab-separated when piped."""
    rows = [summary(directory) for directory in all_runs()]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
    elif not rows:
        click.echo(f"no run yet in {runs_directory()}", err=True)
    elif sys.stdout.isatty():
        _draw(rows)
    else:
        for row in rows:
            click.echo("\t".join(" ".join(row[column].split()) for column in COLUMNS))


def _draw(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*COLUMNS[:-1], box=None)
    for row in rows:
        table.add_row(*(escape(row[column]) for column in COLUMNS[:-1]))
    Console().print(table)


@command.command("rm")
@click.argument("refs", nargs=-1, required=True, metavar="REF...")
@click.option("--yes", is_flag=True, help="do not ask")
def rm(refs: tuple[str, ...], yes: bool) -> None:
    """Remove runs, by id or by the beginning of one."""
    try:
        _remove_all([find_run(ref) for ref in refs], yes)
    except (LookupError, ValueError, OSError) as error:  # no such run, several, still running, not ours to delete
        _fail("rm", error)


@command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), help="keep the newest N runs")
@click.option("--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="remove only runs older than DAYS")
@click.option("--yes", is_flag=True, help="do not ask")
def prune(keep: int | None, older_than: float | None, yes: bool) -> None:
    """Remove old runs; runs that go on stay."""
    if keep is None and older_than is None:
        raise click.UsageError("say what to remove: --keep N or --older-than DAYS")
    runs = all_runs()
    if keep:
        runs = runs[:-keep]
    if older_than is not None:
        oldest = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - older_than * 86400))
        runs = [run for run in runs if run.name < oldest]
    try:
        _remove_all([run for run in runs if summary(run)["end"] != "running"], yes)
    except (ValueError, OSError) as error:  # a directory that is not ours to delete
        _fail("prune", error)


def _remove_all(directories: list[Path], yes: bool) -> None:
    if not directories:
        click.echo("nothing to remove", err=True)
        return
    for directory in directories:
        click.echo(directory.name)
    if not yes:
        click.confirm(f"remove {len(directories)} run{'s' if len(directories) > 1 else ''}?", abort=True)
    for directory in directories:
        remove(directory)


def _fail(name: str, error: Exception) -> None:
    click.echo(f"tm runs {name}: {error.args[0] if isinstance(error, LookupError) else error}", err=True)
    sys.exit(2)
