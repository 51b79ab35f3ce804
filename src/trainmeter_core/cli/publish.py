"""`tm publish`: send what runs could not send while they lasted, because their tracker did not answer."""

from __future__ import annotations

import sys

import click

from trainmeter_core.outside.pending import deliver, runs_with_pending, unclaimed
from trainmeter_core.runlog.locate import find_run


@click.command("publish")
@click.argument("ref", required=False)
@click.option("--quiet", is_flag=True, help="say nothing")
def command(ref: str | None, quiet: bool) -> None:
    """Send what a tracker that did not answer has missed.

    REF is a run directory, a run id or the beginning of one; by default every recent run in which something waits. A
    row is sent once, however often this is called. The exit code is 1 while something still waits.
    """
    say = (lambda _line: None) if quiet else click.echo
    try:
        waiting = runs_with_pending([find_run(ref)] if ref else None)
    except (LookupError, ValueError) as error:  # no such run, or several
        click.echo(f"tm publish: {error.args[0]}", err=True)
        sys.exit(2)
    if not waiting:
        say("nothing waits to be sent")
    left = 0
    for run in waiting:
        try:
            answers = deliver(run)
        except OSError as error:  # what waits cannot be read, or not be struck off
            left += 1
            click.echo(f"tm publish: {run.name}: {error}", err=True)
            continue
        for told in answers:
            left += told.left
            rest = f"; {told.left} still wait: {told.reason}" if told.left else ""
            say(f"{run.name}: {told.sent} rows sent to {told.place}{rest}")
        for tracker in unclaimed(run):
            left += 1
            say(f"{run.name}: rows wait for {tracker}, and its adapter is not installed where tm is (`tm doctor`)")
    if left:
        sys.exit(1)
