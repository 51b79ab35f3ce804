"""`tm selftest`: the user's own command without and with tm, and everything that differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trainmeter_core.outside.selftest import Performance

_SIGNS = {"same": "[green]same[/]", "noise": "[yellow]noise[/]", "differs": "[bold red]differs[/]"}


@click.command("selftest", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]... | -- COMMAND [ARGS]...")
@click.option("-m", "module", is_flag=True, help="the first word is a module, as Python's -m takes it")
@click.option(
    "--copy/--in-place",
    default=None,
    help="run in copies of the working directory, or in it (default: copies where it is at most 256 MB)",
)
@click.option("--with", "with_options", multiple=True, metavar="OPTION", help="an option of tm for the run under it")
@click.option("--python", metavar="PATH", help="the Python that runs the script")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="also as JSON"
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="keep what each run left, in a new DIR",
)
def command(
    *,
    words: tuple[str, ...],
    module: bool,
    copy: bool | None,
    with_options: tuple[str, ...],
    python: str | None,
    json_file: Path | None,
    keep: Path | None,
) -> int:
    """Run a command bare, under tm, and bare again, and compare everything that the runs left.

    Exit code, stdout, stderr without tm's own lines, files, checkpoints tensor by tensor, and what the program logged
    to its trackers. What differs between two bare runs is the program's own noise, and is named as such. Exit code 0
    when nothing differs beyond that, 1 when something does.

    \b
    tm selftest train.py --max-steps 20
    tm selftest -- torchrun --nproc_per_node=2 train.py --max-steps 20

    Take a short run: it is made three times. Nothing goes to a tracker's server.
    """  # noqa: D301 - click knows a block of examples by the character
    from trainmeter_core.outside.command import choose_python, command_for
    from trainmeter_core.outside.selftest import as_json, perform

    if not words:
        raise click.UsageError("no script or command given; see tm selftest --help")
    if keep is not None and keep.exists():
        raise click.UsageError(f"{keep} is there already")
    argv = command_for(words[0], list(words[1:]), module=module, python=python)
    try:
        performance = perform(
            argv,
            python=python or choose_python(),
            copy=copy,
            with_options=with_options,
            keep=keep,
            told=lambda line: click.echo(f"tm selftest: {line}", err=True),
        )
        if json_file is not None:
            json_file.write_text(json.dumps(as_json(performance, argv), indent=1) + "\n")
    except OSError as error:  # no room for the copies; a file that cannot be written
        click.echo(f"tm selftest: {error}", err=True)
        sys.exit(2)
    _show(performance)
    return 1 if performance.differs else 0


def _show(performance: Performance) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("what", "", "how"):
        table.add_column(name, overflow="fold")
    for row in performance.rows:
        table.add_row(escape(row.what), _SIGNS[row.state], escape(row.detail))
    console = Console(highlight=False)
    console.print(table)
    measured, *bare = performance.outcomes
    times = ", ".join(f"{each.seconds:.1f}" for each in bare)
    console.print(f"seconds: {times} bare, {measured.seconds:.1f} under tm")
    if performance.in_place:
        console.print("in place: each run began with what the one before had left (--copy begins anew)")
    differing = sum(row.state == "differs" for row in performance.rows)
    noisy = sum(row.state == "noise" for row in performance.rows)
    noise = f"; {noisy} with noise of the program's own" if noisy else ""
    if differing:
        console.print(f"[bold red]differ under tm: {differing}[/]{noise}. Please report it with this table")
    else:
        console.print(f"[green]nothing differs under tm[/]{noise}")
