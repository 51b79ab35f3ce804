"""tm's own options, and the run they describe."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from trainmeter_core.outside.options import RunOptions
from trainmeter_core.quantities import positive_count, positive_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from .grammar import CommandLine

_T = TypeVar("_T")
_OFF = ("0", "off", "false", "no")


def _parsed_by(parse: Callable[[str], _T]) -> Callable[[click.Context, click.Parameter, str | None], _T | None]:
    def parsed(ctx: click.Context, param: click.Parameter, text: str | None) -> _T | None:
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return parsed


_count = _parsed_by(positive_count)
_real = _parsed_by(lambda text: float(positive_number(text)))


def _convention(name: str) -> str:
    from trainmeter_core.flops import CONVENTIONS

    if name not in CONVENTIONS:
        raise ValueError(f"no convention {name!r}; there are {', '.join(CONVENTIONS)}")
    return name


OPTIONS: list[click.Parameter] = [
    click.Option(
        ["--convention"],
        metavar="NAME",
        callback=_parsed_by(_convention),
        help="FLOPs convention of the headline MFU (default: torchtitan)",
    ),
    click.Option(
        ["--peak-tflops"], metavar="X", callback=_real, help="dense peak of one GPU, when tm does not know it"
    ),
    click.Option(
        ["--budget-tokens"],
        metavar="N",
        callback=_count,
        help="the run's goal: progress and time left appear (20B, 1.5T)",
    ),
    click.Option(["--budget-steps"], metavar="N", callback=_count, help="the same in optimizer steps"),
    click.Option(["--budget-flops"], metavar="N", callback=_count, help="the same in FLOPs (1e22)"),
    click.Option(["--budget-hours"], metavar="X", callback=_real, help="the same in hours"),
    click.Option(["--count"], is_flag=True, help="count what one step executes, for HFU; a few seconds once"),
    click.Option(["--run-name"], metavar="NAME", help="name of the run directory"),
    click.Option(
        ["--resume"], metavar="RUN", help="go on with this run directory; latest: this script's newest, if any"
    ),
    click.Option(["--no-tap", "no_taps"], multiple=True, metavar="NAME", help="do not observe NAME (repeatable)"),
    click.Option(["--no-plugin", "no_plugins"], multiple=True, metavar="NAME", help="leave a tracker alone"),
    click.Option(["--python"], metavar="PATH", help="the Python that runs the script"),
    click.Option(["--progress"], is_flag=True, help="one live line on the terminal, when the output goes elsewhere"),
    click.Option(
        ["--metrics-port"],
        metavar="N",
        type=click.IntRange(0, 65535),
        default=0,
        help="serve /metrics on this loopback port (default: any free one)",
    ),
    click.Option(
        ["--web/--no-web"],
        default=None,
        help="a viewer for a run without a tracker (default: at a terminal); --port N, --keep-web",
    ),
    # Told in the line above, as --off in an example: the help is one screen.
    click.Option(["--port"], metavar="N", type=click.IntRange(0, 65535), default=0, hidden=True),
    click.Option(["--keep-web"], is_flag=True, hidden=True),
    # Where tm notes down what it says on stderr, for `tm selftest`.
    click.Option(["--transcript"], metavar="FILE", default="", hidden=True),
    click.Option(["--quiet"], is_flag=True, help="no lines of tm's own on stderr"),
    click.Option(["--off"], is_flag=True, hidden=True),
    click.Option(["--version"], is_flag=True, hidden=True),
    click.Option(["--help", "-h"], is_flag=True, help="print this; --version prints the version"),
]
WITH_VALUE = frozenset(
    name for option in OPTIONS if isinstance(option, click.Option) and not option.is_flag for name in option.opts
)


def run(line: CommandLine, given: dict[str, Any], variables: tuple[tuple[str, str], ...] = ()) -> int:
    """Run the user's command as `line` and the parsed options `given` say; the exit code, unless a signal ends tm.

    `variables` are the command's besides its own environment.
    """
    from trainmeter_core.outside.command import command_for, is_python_target

    python, off = given.pop("python"), given.pop("off")
    target, *args = line.rest
    kind: Literal["script", "module", "command"]
    if line.kind == "command":
        kind, argv = "command", line.rest
    else:
        module = line.kind == "module"
        kind = "module" if module else "script" if is_python_target(target) else "command"
        argv = command_for(target, args, module=module, python=python)
    if off or os.environ.get("TM", "").lower() in _OFF:
        from trainmeter_core.outside.launch import exec_bare, inherited_environment

        end = exec_bare(argv, inherited_environment())
        print(f"tm: {end.problem}", file=sys.stderr)
        return end.code
    from trainmeter_core.outside import session

    try:
        return session.run(RunOptions(target=target, kind=kind, variables=variables, **given), argv)
    except session.NoSuchRunError as error:
        raise click.UsageError(f"--resume: {error}") from None
