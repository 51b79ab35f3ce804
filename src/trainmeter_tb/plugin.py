"""The TensorBoard adapter's hooks; each leads to its room."""

# mypy: disallow_untyped_decorators = False
# pluggy's marker comes through our loader, which gives it no type.
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.hookspecs import AgentFace, Check, Undo, UsersData, hookimpl

if TYPE_CHECKING:
    from types import ModuleType

# One publisher per agent, so that both packages' writers are seen together.
_publishers: dict[int, Any] = {}
_children: dict[int, Any] = {}


@hookimpl
def tracker_modules() -> list[str]:
    """The two modules that define an EventFileWriter, and TensorFlow's that makes its own."""
    from .tap import MODULES
    from .tf import MODULE

    return [*MODULES, MODULE]


@hookimpl
def install_tap(module: ModuleType, agent: AgentFace) -> Undo:
    """Tap the module's EventFileWriter, or TensorFlow's function that makes a writer."""
    from . import tf
    from .publish import Publisher
    from .tap import install

    if module.__name__ == tf.MODULE:
        return tf.install(module, agent, _children.setdefault(id(agent), tf.ChildRun(agent)))
    publisher = _publishers.setdefault(id(agent), Publisher(agent))
    return install(module, agent, publisher)


@hookimpl
def finish(agent: AgentFace) -> None:
    """Write the end of a run whose writer was never closed."""
    for known in (_publishers, _children):
        publisher = known.pop(id(agent), None)
        if publisher is not None:
            publisher.finish()


@hookimpl
def open_local(directory: str) -> Any | None:
    """Write event files for a run without a tracker."""
    from trainmeter_core.readings import Absent

    from .local import LocalEvents

    try:
        return LocalEvents(directory)
    except ImportError:
        return Absent("tensorboard is not installed where tm is: pip install 'trainmeter[tensorboard]'")


@hookimpl
def serve_local(tracker: str, place: Mapping[str, str], port: int, keep: bool) -> Any | None:
    """Show the user's own log directory, or ours of a run without a tracker, in TensorBoard."""
    from .publish import TRACKER
    from .server import serve

    directory = place.get("logdir" if tracker == TRACKER else "directory")
    return serve(directory, port, keep) if tracker in ("", TRACKER) and directory else None


@hookimpl
def where(tracker: str, place: Mapping[str, str]) -> str | None:
    """Give the command that opens the user's own log directory."""
    from .local import open_command
    from .publish import TRACKER

    logdir = place.get("logdir")
    return open_command(logdir) if tracker == TRACKER and logdir else None


@hookimpl
def doctor() -> list[Check]:
    """Say which writers are here and whether the tap fits them."""
    from .checks import checks

    return checks()


@hookimpl
def users_data(directory: str) -> list[UsersData]:
    """Give what the user wrote to event files."""
    from .users import users_data as read

    return read(directory)


@hookimpl
def export(tracker: str, passport: Mapping[str, Any], rows: Any, target: Mapping[str, str]) -> str | None:
    """Write a finished run as an event file."""
    from .export import export as write

    return write(passport, rows, target) if tracker == "tensorboard" else None


@hookimpl
def open_run(ref: str) -> Any | None:
    """Read a run from a log directory or one event file."""
    if not os.path.exists(ref):
        return None
    try:
        from .read import open_run as read
    except ImportError:  # tm without tensorboard
        return None
    return read(ref)
