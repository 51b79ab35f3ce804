"""`tm`: a run by default, a subcommand by its name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from trainmeter_core.version import __version__

from .adapter_options import adapter_options, as_click, has_foreign, taken_from
from .commands import COMMANDS, adapter_command
from .grammar import split
from .run import OPTIONS, WITH_VALUE, run

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Do what the command line says and exit; the only place that prints errors and sets exit codes."""
    if words is None and "_TM_COMPLETE" in os.environ:
        from .completion import answer

        sys.exit(answer())
    try:
        code = _dispatch(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
    except click.ClickException as error:
        print(f"tm: {_one_line(error)}", file=sys.stderr)
        code = error.exit_code
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains once more while it ends
        code = 1
        if not isinstance(error, BrokenPipeError):  # `tm … | head`: nobody reads on
            print(f"tm: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
            code = 2
    except (click.Abort, KeyboardInterrupt):  # Ctrl-C before anything of the user's ran
        from trainmeter_core.outside.launch import Exit, end_like

        end_like(Exit(130, signal=2))
    sys.exit(code)


def _dispatch(words: Sequence[str]) -> int:
    line = split(words, WITH_VALUE)
    theirs = adapter_options() if has_foreign(line.options) else []
    if theirs:
        line = split(words, WITH_VALUE | {option.name for option in theirs if option.metavar})
    if line.kind == "target" and line.rest[0] in COMMANDS:
        return _subcommand(line.rest[0], COMMANDS[line.rest[0]][0], line.options, line.rest[1:])
    if line.kind == "target" and not line.options:
        place = adapter_command(line.rest)
        if place is not None:
            return _subcommand(" ".join(line.rest[:2]), place, [], line.rest[2:])
    given = _parse(line.options, [*OPTIONS, *as_click(theirs)])
    variables = taken_from(given, theirs)
    wants_version, wants_help = given.pop("version"), given.pop("help")
    if wants_version:
        print(f"trainmeter {__version__}")
        return 0
    if wants_help or (line.kind == "nothing" and not words):
        from .help import page

        print(page([*OPTIONS, *as_click(adapter_options())], COMMANDS))
        return 0
    if not line.rest:
        missing = "-m needs the name of a module" if line.kind == "module" else "no script or command given"
        raise click.UsageError(f"{missing}; see tm --help")
    return run(line, given, variables)


def _parse(options: list[str], known: list[click.Parameter]) -> dict[str, Any]:
    parser = click.Command("tm", params=known, add_help_option=False)
    try:
        with parser.make_context("tm", list(options)) as context:
            return dict(context.params)
    except click.NoSuchOption as error:
        if not error.option_name.startswith("--"):
            raise click.UsageError(
                f"no option {error.option_name}; Python's own go like this: tm python {error.option_name} …"
            ) from None
        raise


def _subcommand(name: str, place: str, before: list[str], args: list[str]) -> int:
    if before:
        raise click.UsageError(f"{before[0]} belongs to a run; `tm {name}` takes its options after its name")
    from importlib import import_module

    module, _, attribute = place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    result = command.main(args=args, prog_name=f"tm {name}", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _one_line(error: click.ClickException) -> str:
    return " ".join(error.format_message().split())
