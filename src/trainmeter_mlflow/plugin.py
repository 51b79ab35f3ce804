"""The MLflow adapter's hooks; each leads to its room."""

# mypy: disallow_untyped_decorators = False
# pluggy's marker comes through our loader, which gives it no type.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping

from trainmeter_core.hookspecs import AgentFace, Check, Delivered, Option, Undo, UsersData, hookimpl

if TYPE_CHECKING:
    from types import ModuleType

TRACKER = "mlflow"

# One publisher per agent, so that all stores' runs are seen together.
_publishers: dict[int, Any] = {}


@hookimpl
def tracker_modules() -> list[str]:
    """The modules that define a tracking store."""
    from .tap import MODULES

    return list(MODULES)


@hookimpl
def install_tap(module: ModuleType, agent: AgentFace) -> Undo:
    """Tap the module's store class."""
    from .publish import Publisher
    from .tap import install

    publisher = _publishers.setdefault(id(agent), Publisher(agent))
    return install(module, agent, publisher)


@hookimpl
def options() -> list[Option]:
    """What a user can ask of a run that logs to MLflow."""
    from .system import OPTION

    return [Option("--mlflow-system-metrics", OPTION, "hardware series also under MLflow's System metrics")]


@hookimpl
def same_run(base: Mapping[str, str]) -> tuple[str, bool] | None:
    """The run of MLFLOW_RUN_ID: MLflow's own calls go on with it."""
    run_id = base.get("MLFLOW_RUN_ID")
    return (TRACKER + ":" + run_id, True) if run_id else None


@hookimpl
def finish(agent: AgentFace) -> None:
    """Send the end of a run that was never ended, and leave what cannot be sent in the run directory."""
    publisher = _publishers.pop(id(agent), None)
    if publisher is not None:
        publisher.finish()


@hookimpl
def where(tracker: str, place: Mapping[str, str]) -> str | None:
    """Give the run's page and that of its experiment's charts."""
    from .place import pages

    return pages(place) if tracker == TRACKER else None


@hookimpl
def deliver(run_directory: str) -> list[Delivered]:
    """Send what waits in a run directory."""
    from .deliver import deliver as send

    return send(run_directory)


@hookimpl
def open_run(ref: str, server: str | None) -> Any | None:
    """Read a run by ``mlflow:RUN_ID`` or its page's address."""
    from .place import run_of

    found = run_of(ref)
    if found is None:
        return None
    from .read import open_run as read_run

    return read_run(found[0], server or found[1])


@hookimpl
def users_data(directory: str) -> list[UsersData]:
    """Give what the user logged to stores below a directory."""
    from .users import users_data as read

    return read(directory)


@hookimpl
def kept_apart(directory: str, base: Mapping[str, str]) -> Mapping[str, str]:
    """Give a database of its own in place of a server."""
    from .users import kept_apart as variables

    return variables(directory, base)


@hookimpl
def export(tracker: str, passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]) -> str | None:
    """Write a finished run into an experiment."""
    if tracker != TRACKER:
        return None
    from .export import export as write

    return write(passport, target, rows)


@hookimpl
def doctor() -> list[Check]:
    """Say whether MLflow is here and whether the tap fits it."""
    from .checks import checks

    return checks()
