"""`tm doctor`: what tm can see on this node and inside the trainer's Python, and what to do about the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trainmeter_core.outside.doctor import Line

_SIGNS = {"ok": "ok", "missing": "--", "problem": "!!"}


@click.command("doctor")
@click.option("--python", metavar="PATH", help="the Python that runs your training (default: the one `tm` would take)")
@click.option("--json", "as_json", is_flag=True, help="one JSON object per line")
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.tar.gz",
    help="pack what tm reads for a bug report, secrets and names of users and machines taken out",
)
def command(*, python: str | None, as_json: bool, dump: Path | None) -> None:
    """What tm can see on this node and inside the trainer's Python.

    Exit code 1 when something that is here does not work; what is merely missing (--) is no failure.
    """
    from trainmeter_core.outside.command import choose_python
    from trainmeter_core.outside.doctor import examine

    lines = examine(python or choose_python())
    for line in lines:
        click.echo(json.dumps(line._asdict()) if as_json else _shown(line))
    if dump is not None:
        from trainmeter_core.outside.doctor.dump import write

        try:
            write(dump, lines)
        except OSError as error:  # a directory that is not there, or full
            click.echo(f"tm doctor: {dump}: {error.strerror}", err=True)
            sys.exit(2)
        click.echo(f"wrote {dump}: look through it before you send it", err=True)
    sys.exit(1 if any(line.state == "problem" for line in lines) else 0)


def _shown(line: Line) -> str:
    advice = f"\n       {'':<10}→ {line.advice}" if line.advice and line.state != "ok" else ""
    return f"{_SIGNS[line.state]:<3} {line.area:<8} {line.name}: {line.detail}{advice}"
