"""`tm recover`: passports for runs whose `tm` was killed."""

from __future__ import annotations

import sys

import click

from trainmeter_core.outside.recover import recover, unfinished
from trainmeter_core.runlog.locate import find_run


@click.command("recover")
@click.argument("refs", nargs=-1, metavar="[RUN]...")
@click.option("--quiet", is_flag=True, help="say nothing")
def command(refs: tuple[str, ...], quiet: bool) -> None:
    """Write the passports of runs whose tm was killed, from their logs and from what their programs left in memory.

    RUN is a run directory, a run id or the beginning of one; by default every recent run that has no passport. The
    next tm does this by itself. The exit code is 1 when a run cannot be recovered (yet).
    """
    try:
        runs = [find_run(ref) for ref in refs] if refs else unfinished()
    except (LookupError, ValueError) as error:  # no such run, or several
        click.echo(f"tm recover: {error.args[0]}", err=True)
        sys.exit(2)
    if not runs and not quiet:
        click.echo("nothing to recover", err=True)
    failed = False
    for run in runs:
        try:
            found = recover(run)
        except (ValueError, OSError) as error:  # still running, or not ours to write
            failed = True
            if not quiet:
                click.echo(f"tm recover: {error}", err=True)
            continue
        if not quiet:
            total = found.passport["data"]["steps"]["value"]
            click.echo(f"{run.name}: {total:,} steps, {found.steps:,} of them from the spool; {run / 'passport.md'}")
    if failed:
        sys.exit(1)
