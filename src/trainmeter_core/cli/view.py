"""`tm view`: look at a run where it lives, or in a viewer on loopback until Ctrl-C."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.outside.web import LOCAL, serve
from trainmeter_core.plugins import find_plugins, managers
from trainmeter_core.runlog.format import LOCAL_TRACKER_DIRECTORY
from trainmeter_core.runlog.locate import find_run, latest_run
from trainmeter_core.runlog.read import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainmeter_core.hookspecs import Served
    from trainmeter_core.plugins import FoundPlugin

Place = tuple[str, "Mapping[str, str]"]
"""A tracker's name and where a run is in it; `LOCAL` and a directory for one without."""

_LOOK_EVERY_S = 0.2
_URL = re.compile(r"https?://[^\s,;]+")


def places(ref: str | None) -> list[Place]:
    """Where a run can be looked at: its trackers, else its own files; a directory that is no run's is itself.

    Raises LookupError or ValueError with one clear line.
    """
    try:
        directory = latest_run() if ref is None else find_run(ref)
    except LookupError:
        if ref is None or not Path(ref).is_dir():
            raise
        return [(LOCAL, {"directory": ref})]
    trackers = [(each["tracker"], each["where"]) for each in read_run(directory).trackers]
    if trackers:
        return trackers
    files = directory / LOCAL_TRACKER_DIRECTORY
    if not files.is_dir():
        raise ValueError(f"{directory.name} has no tracker and left no files of its own; `tm export` writes its series")
    return [(LOCAL, {"directory": str(files)})]


def lines(plugins: Sequence[FoundPlugin], found: Sequence[Place]) -> list[str]:
    """What each tracker's adapter says of how to look at the run."""
    said = [
        manager.hook.where(tracker=tracker, place=place) for tracker, place in found for _, manager in managers(plugins)
    ]
    return list(dict.fromkeys(line for line in said if line))


def open_page(url: str) -> None:
    """Open a page in the user's browser, where there is a desktop to open it on."""
    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))):
        return
    import webbrowser

    webbrowser.open(url)


def _start(plugins: Sequence[FoundPlugin], found: Sequence[Place], port: int) -> Served | None:
    for tracker, place in found:
        served = serve(plugins, tracker, place, port, keep=False)
        if served is not None:
            return served
    return None


def _stay(served: Served, browser: bool) -> bool:
    """Say where the viewer is once it is there, and wait for its end or Ctrl-C; False when it never came."""
    try:
        while not served.is_up():
            if served.is_gone():
                return False
            time.sleep(_LOOK_EVERY_S)
        click.echo(f"{served.url}  (Ctrl-C ends it)")
        if browser:
            open_page(served.url)
        while not served.is_gone():
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        served.close()
    return True


def _fail(error: Any) -> None:
    click.echo(f"tm view: {error}", err=True)
    sys.exit(2)


@click.command("view")
@click.argument("ref", required=False, metavar="[RUN]")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="first port to try for a viewer started here"
)
@click.option("--no-browser", is_flag=True, help="print the address, open nothing")
def command(ref: str | None, port: int, no_browser: bool) -> None:
    """Look at a run where it lives.

    RUN is a run directory, a run id or the beginning of one, or a directory of event files; by default the latest run.
    A run that has a page in its tracker is opened there; any other is shown in a viewer on loopback until Ctrl-C.
    """
    try:
        found = places(ref)
        plugins, _broken = find_plugins()
        told = lines(plugins, found)
        for line in told:
            click.echo(line)
        page = next((url[0] for url in map(_URL.search, told) if url), None)
        if page is not None:
            if not no_browser:
                open_page(page)
            return
        served = _start(plugins, found, port)
    except (LookupError, ValueError, OSError) as error:  # no such run, several, nothing to show, no free port
        _fail(error.args[0] if isinstance(error, LookupError) else error)
        return
    if served is None:
        if not told:
            _fail("no adapter here can show this run: pip install 'trainmeter[all]'")
    elif not _stay(served, not no_browser):
        _fail("the viewer did not start")
