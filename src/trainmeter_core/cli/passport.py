"""`tm passport`: what a run spent and how well it used its hardware, from its directory or from its tracker."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.passport import markdown, schema
from trainmeter_core.passport.build import build
from trainmeter_core.runlog.format import PASSPORT_FILE
from trainmeter_core.runlog.locate import find_run, latest_run
from trainmeter_core.runlog.read import read_run

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord

Passport = dict[str, Any]


def open_elsewhere(ref: str) -> RunRecord | None:
    """Read a run that is not a run directory; None when no tracker knows the reference. Raises ValueError."""
    del ref
    return None


def load(ref: str | None) -> Passport:
    """The passport of the latest run, a run directory, a passport file, or a tracker's run.

    Raises ValueError with one clear line.
    """
    try:
        if ref is not None and Path(ref).is_file() and ref.endswith(".json"):
            return read_passport(Path(ref))
        return of_directory(latest_run() if ref is None else find_run(ref))
    except LookupError as error:  # no such run here: it may be a tracker's
        record = open_elsewhere(ref or "")
        if record is None:
            raise ValueError(f"{error.args[0]}, and no tracker knows it") from error
        return build(record)


def of_directory(directory: Path) -> Passport:
    """The passport in a run directory, or one built from the log while there is none."""
    try:
        return read_passport(directory / PASSPORT_FILE)
    except FileNotFoundError:  # the run goes on, or tm was killed
        return build(read_run(directory))


def read_passport(path: Path) -> Passport:
    """A passport from its file. Raises ValueError with one line when it is not one."""
    try:
        passport: Passport = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    problems = schema.problems(passport)
    if problems:
        raise ValueError(f"{path} is not a trainmeter passport: {problems[0]}")
    return passport


def _show(passport: Passport, as_json: bool, as_markdown: bool, out: Path | None) -> None:
    as_json = as_json or (out is not None and out.suffix == ".json" and not as_markdown)
    text = json.dumps(passport, indent=1) + "\n" if as_json else markdown.render(passport)
    if out is not None:
        out.write_text(text, encoding="utf-8", errors="backslashreplace")
    elif as_json or as_markdown or not sys.stdout.isatty():
        sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
    else:
        _pretty(text)


def _pretty(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@click.command("passport")
@click.argument("ref", required=False)
@click.option("--json", "as_json", is_flag=True, help="the passport as JSON")
@click.option("--md", "as_markdown", is_flag=True, help="Markdown for a model card")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="write to FILE (.json or .md)")
def command(ref: str | None, as_json: bool, as_markdown: bool, out: Path | None) -> None:
    """What a run spent, and how well it used its hardware.

    REF is a run directory, a run id or the beginning of one, a passport.json, or a run in a tracker; by default the
    latest run.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json and --md exclude each other")
    try:
        _show(load(ref), as_json, as_markdown, out)
    except BrokenPipeError:  # `tm passport | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:  # a reference that fits nothing, a file that cannot be read or written
        click.echo(f"tm passport: {error}", err=True)
        sys.exit(2)
