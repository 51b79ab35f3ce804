"""Series that a run could not send: finds them in the run directories and lets the adapters deliver them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from trainmeter_core.plugins import find_plugins, managers
from trainmeter_core.runlog.format import PENDING
from trainmeter_core.runlog.locate import all_runs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trainmeter_core.hookspecs import Delivered

# A run that waits for longer than the newest of so many has its tracker gone for good; `tm publish RUN` still sends it.
_NEWEST = 50


def pending_files(run_directory: Path) -> list[Path]:
    """What waits in one run directory."""
    return sorted(run_directory.glob(PENDING.format(tracker="*")))


def runs_with_pending(runs: Iterable[Path] | None = None) -> list[Path]:
    """The run directories in which something waits, oldest first."""
    return [run for run in (all_runs()[-_NEWEST:] if runs is None else runs) if pending_files(run)]


def deliver(run_directory: Path) -> list[Delivered]:
    """Let every adapter send what waits for its tracker in a run directory. Raises what an adapter raises."""
    found, _broken = find_plugins()
    told: list[Delivered] = []
    for _name, manager in managers(found):
        for answers in manager.hook.deliver(run_directory=str(run_directory)):
            told.extend(answers)
    return told


def unclaimed(run_directory: Path) -> list[str]:
    """The trackers for which something waits in a run directory and no adapter of theirs is here."""
    here = {plugin.name for plugin in find_plugins()[0]}
    before, _, after = PENDING.partition("{tracker}")
    waiting = [path.name[len(before) : -len(after)] for path in pending_files(run_directory)]
    return [tracker for tracker in waiting if tracker not in here]


def deliver_in_background() -> None:
    """Start a `tm publish` of its own when anything waits; the command that was asked for does not wait for it."""
    try:
        if not runs_with_pending():
            return
        subprocess.Popen(
            [sys.executable, "-m", "trainmeter_core", "publish", "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        # The state directory cannot be read, or no process can be started: the next run tries again.
        return
