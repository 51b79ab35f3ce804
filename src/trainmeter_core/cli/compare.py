"""`tm compare`: what changed between two runs, and what it did to the MFU."""

from __future__ import annotations

import json
import sys

import click

from trainmeter_core.passport.changes import changes, drop_pct, words
from trainmeter_core.readings import Absent

from .passport import load

DROPPED = 1


def _percent(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a percentage; write 5%") from None
    if not 0 <= value <= 100:  # noqa: PLR2004 - percent
        raise click.BadParameter(f"{text!r} is not between 0% and 100%")
    return value


@click.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="the comparison as JSON")
@click.option(
    "--fail-if-mfu-drops",
    "limit",
    metavar="5%",
    callback=_percent,
    help="exit code 1 when B's MFU is more than so many percent below A's, 2 when that cannot be told",
)
@click.option("--tracking-uri", metavar="URI", help="the tracker's server, where its own settings do not say")
def command(*, before: str, after: str, as_json: bool, limit: float | None, tracking_uri: str | None) -> None:
    """What changed from run A to run B, and what it did to the MFU.

    A and B are what `tm passport` takes: run directories, run ids, passport files, runs in a tracker.
    """
    try:
        found = changes(load(before, tracking_uri), load(after, tracking_uri))
    except (ValueError, OSError) as error:  # a reference that fits nothing, or a file that cannot be read
        click.echo(f"tm compare: {error}", err=True)
        sys.exit(2)
    click.echo(json.dumps(found, indent=1) if as_json else words(found), nl=as_json)
    if limit is None:
        return
    drop = drop_pct(found)
    if isinstance(drop, Absent):
        click.echo(f"tm compare: the MFU cannot be compared: {drop.reason}", err=True)
        sys.exit(2)
    if drop > limit:
        click.echo(f"tm compare: the MFU fell by {drop:.3g} %, more than {limit:g} %", err=True)
        sys.exit(DROPPED)
