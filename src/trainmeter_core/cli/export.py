"""`tm export`: the series of a finished run, to a file or into a tracker that did not see it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.outside import parts
from trainmeter_core.outside.replay import RunRows, size_of
from trainmeter_core.outside.table_files import FORMS
from trainmeter_core.runlog.locate import find_run, latest_run

from .passport import of_directory

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDINGS = {"csv": ".csv", "parquet": ".parquet", "openmetrics": ".openmetrics.txt"}


class Formats(click.Group):
    """One command per file format, and one for every tracker whose adapter can take a run."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The file formats, then the adapters found."""
        from trainmeter_core.plugins import find_plugins

        return [*super().list_commands(context), *(plugin.name for plugin in find_plugins()[0])]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """A file format's command, else the adapter's of that name."""
        return super().get_command(context, name) or (
            _into_tracker(name) if name in self.list_commands(context) else None
        )


@click.group("export", cls=Formats)
def command() -> None:
    """The series of a finished run, to a file or into a tracker.

    A file is written in parts beside its place and put there whole: an export that was interrupted leaves these, the
    same command goes on with them, and one that is repeated gives the same file.
    """


def _run_argument(function: Callable[..., None]) -> Callable[..., None]:
    every = click.option(
        "--every", type=click.FloatRange(min=0), default=1.0, metavar="SECONDS", show_default=True,
        help="seconds of the run in one row; 0 gives every row of the log",
    )  # fmt: skip
    return click.argument("ref", required=False, metavar="[RUN]")(every(function))


def _to_file(name: str) -> click.Command:
    @_run_argument
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="default: RUN's id in this folder")
    def export(ref: str | None, every: float, out: Path | None) -> None:
        directory = _directory(ref)
        out = out or Path(directory.name + _ENDINGS[name])
        with _progress(directory, every) as found:
            count = _guarded(lambda: parts.write(FORMS[name], found, out, _labels(directory)))
        click.echo(f"{count:,} rows in {out}", err=True)

    return click.command(name, help=f"Write a run's series as {name}.")(export)


def _into_tracker(name: str) -> click.Command:
    @_run_argument
    @click.option("--directory", metavar="DIR", help="folder or log directory, for a tracker of files")
    @click.option("--server", metavar="URL", help="the tracker's address, where its own settings do not say")
    @click.option("--project", metavar="NAME", help="project or experiment that takes the run")
    @click.option("--entity", metavar="NAME", help="user or team that owns the project")
    @click.option("--name", "run", metavar="NAME", help="name of the run there")
    @click.option("--offline", is_flag=True, help="write local files only, for a later upload")
    def export(ref: str | None, every: float, **place: str | bool | None) -> None:
        directory = _directory(ref)
        target = {key: str(value) for key, value in place.items() if value}
        with _progress(directory, every) as found:
            where = _guarded(lambda: _ask(name, directory, found, target))
        if where is None:
            _fail(f"the adapter {name} cannot take a finished run")
        click.echo(where)

    return click.command(name, help=f"Write a run into {name}.")(export)


def _ask(name: str, directory: Path, found: RunRows, target: dict[str, str]) -> Any:
    from trainmeter_core.plugins import each_plugin, find_plugins

    plugins = [plugin for plugin in find_plugins()[0] if plugin.name == name]
    passport = of_directory(directory)
    for manager in each_plugin(plugins):
        where = manager.hook.export(tracker=name, passport=passport, rows=found, target=target)
        if where is not None:
            return where
    return None


def _directory(ref: str | None) -> Path:
    def find() -> Path:
        try:
            return latest_run() if ref is None else find_run(ref)
        except LookupError as error:  # no such run here
            raise ValueError(error.args[0]) from error

    found: Path = _guarded(find)
    return found


def _labels(directory: Path) -> dict[str, str]:
    identity = of_directory(directory)["identity"]
    return {"run": str(identity["run_id"]), "script": str(identity["script"])}


class _progress:  # noqa: N801 - used as a function
    """The rows of a run, with a bar on a terminal."""

    def __init__(self, directory: Path, every_s: float) -> None:
        self._directory = directory
        self._every_s = every_s
        self._bar: Any = None

    def __enter__(self) -> RunRows:
        def ignore(_: int) -> None:
            return

        at_byte: Callable[[int], None] = ignore
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.start()
            task = self._bar.add_task("exporting", total=size_of(self._directory))
            bar = self._bar

            def at_byte(byte: int) -> None:
                bar.update(task, completed=byte)

        return RunRows(self._directory, self._every_s, at_byte)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _guarded(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (ValueError, OSError) as error:  # no such run, a library that is missing, a place that cannot be written
        _fail(str(error))


def _fail(reason: str) -> None:
    click.echo(f"tm export: {reason}", err=True)
    sys.exit(2)


for _name in FORMS:
    command.add_command(_to_file(_name))
