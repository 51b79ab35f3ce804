"""`tm enable` and `tm disable`: measure programs that `tm` cannot be put in front of."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_python = click.option("--python", metavar="PATH", help="a Python of the environment (default: as for scripts)")


@click.command("enable")
@_python
def command(python: str | None) -> None:
    """Let programs of an environment measure themselves when TRAINMETER=1 is set.

    For managed launchers and jobs where `tm` cannot stand in front, and for programs under `python -I` or `-E`. One
    file is written, trainmeter.pth, which does nothing where TRAINMETER is not set; `tm disable` takes it out again.
    """
    from trainmeter_core.outside.enabling import enable

    place = _changed(enable, python)
    click.echo(f"written: {place}\nPrograms of this Python that import torch are measured where TRAINMETER=1 is set.")


@click.command("disable")
@_python
def disable_command(python: str | None) -> None:
    """Take out what `tm enable` wrote."""
    from trainmeter_core.outside.enabling import disable

    place = _changed(disable, python)
    click.echo(f"removed: {place}" if place else "there is nothing to remove")


def _changed(change: Callable[[str], Path | None], python: str | None) -> Path | None:
    from trainmeter_core.outside.command import choose_python

    asked = python or choose_python()
    found = shutil.which(asked)
    if found is None:
        raise click.BadParameter(f"no Python at {asked}", param_hint="--python")
    try:
        return change(found)
    except OSError as error:
        raise click.ClickException(f"{error.strerror or error}: {error.filename or found}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
