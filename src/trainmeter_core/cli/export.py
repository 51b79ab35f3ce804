"""`tm export TRACKER`: a finished run of the run directories, written into a tracker; one subcommand per adapter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trainmeter_core.outside.replay import ReplayedRow

_TARGET = ("project", "entity", "server", "run", "offline", "directory")


class _Trackers(click.Group):
    """The adapters that can take a run, found when somebody asks."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(name for name, manager in _managers() if manager.hook.export.get_hookimpls())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return click.Command(cmd_name, params=_parameters(), callback=_callback(cmd_name), help=_HELP)


@click.command("export", cls=_Trackers)
def command() -> None:
    """Write a finished run into a tracker. Exporting it again adds nothing twice."""


_HELP = """Write RUN (a run directory, a run id or the beginning of one; by default the latest run) into this tracker.

An export that was interrupted goes on where it stopped; one that is complete adds nothing.
"""


def _parameters() -> list[click.Parameter]:
    return [
        click.Argument(["ref"], required=False, metavar="[RUN]"),
        click.Option(["--project"], metavar="NAME", help="project or experiment that takes the run"),
        click.Option(["--entity"], metavar="NAME", help="user or team that owns the project"),
        click.Option(["--server"], metavar="URL", help="the tracker's server, where its own settings do not say"),
        click.Option(["--run"], metavar="NAME", help="name of the run in the tracker"),
        click.Option(["--directory"], metavar="DIR", help="where local files of the tracker go"),
        click.Option(["--offline"], is_flag=True, help="write local files only, for a later upload"),
    ]


def _callback(tracker: str) -> Any:
    def export(ref: str | None, **given: Any) -> int:
        from trainmeter_core.outside.replay import Replay
        from trainmeter_core.runlog.locate import find_run, latest_run

        from .passport import of_directory

        target = {name: str(given[name]) for name in _TARGET if given.get(name)}
        manager = dict(_managers())[tracker]
        try:
            directory = latest_run() if ref is None else find_run(ref)
            passport = of_directory(directory)
            rows = Replay(directory)
            with _progress(rows, rows.count()) as shown:
                place = manager.hook.export(tracker=tracker, passport=passport, target=target, rows=shown)
        except (LookupError, ValueError, OSError) as error:  # no such run, no such place, or a full disk
            print(f"tm export: {error.args[0] if error.args else error}", file=sys.stderr)
            return 2
        print(place or "")
        return 0

    return export


def _progress(rows: Iterable[ReplayedRow], count: int) -> Any:
    return click.progressbar(rows, length=count, label="rows", file=sys.stderr, hidden=not sys.stderr.isatty())


def _managers() -> Iterator[tuple[str, Any]]:
    from trainmeter_core.plugins import find_plugins, managers

    return managers(find_plugins()[0])
