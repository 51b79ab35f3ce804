"""The Weights & Biases adapter's hooks; each leads to its room."""

# mypy: disallow_untyped_decorators = False
# pluggy's marker comes through our loader, which gives it no type.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping

from trainmeter_core.hookspecs import AgentFace, Check, Undo, UsersData, hookimpl

if TYPE_CHECKING:
    from types import ModuleType

_publishers: dict[int, Any] = {}


@hookimpl
def tracker_modules() -> list[str]:
    """The module that defines Run."""
    from .tap import MODULE

    return [MODULE]


@hookimpl
def install_tap(module: ModuleType, agent: AgentFace) -> Undo:
    """Tap the Run class."""
    from .publish import Publisher
    from .tap import install

    publisher = _publishers.setdefault(id(agent), Publisher(agent))
    return install(module, agent, publisher)


@hookimpl
def finish(agent: AgentFace) -> None:
    """Write the end of every run that is still live."""
    publisher = _publishers.pop(id(agent), None)
    if publisher is not None:
        publisher.finish()


@hookimpl
def environment(metrics_url: str, base: Mapping[str, str]) -> Mapping[str, str]:
    """Let the client scrape our endpoint for its System section."""
    from .scrape import environment as with_endpoint

    return with_endpoint(metrics_url, base)


@hookimpl
def same_run(base: Mapping[str, str]) -> tuple[str, bool] | None:
    """The run of WANDB_RUN_ID, resumed where WANDB_RESUME says so."""
    from .place import named_by

    return named_by(base)


@hookimpl
def where(tracker: str, place: Mapping[str, str]) -> str | None:
    """Give the run's URL, or the command that opens an offline run."""
    from .place import TRACKER, line

    return line(place) if tracker == TRACKER else None


@hookimpl
def doctor() -> list[Check]:
    """Say which client is here and whether the tap fits it."""
    from .checks import checks

    return checks()


@hookimpl
def open_run(ref: str, server: str | None) -> Any | None:
    """Read a run from an offline run's directory, a .wandb file, a run's URL or ``wandb:ENTITY/PROJECT/RUN``."""
    from .read import open_run as read_run

    return read_run(ref, server)


@hookimpl
def users_data(directory: str) -> list[UsersData]:
    """Give what the user logged to runs below a directory."""
    from .users import users_data as read

    return read(directory)


@hookimpl
def kept_apart(directory: str, base: Mapping[str, str]) -> Mapping[str, str]:
    """Let the client write offline runs; those of a folder of its own go elsewhere."""
    from .users import kept_apart as variables

    return variables(directory, base)


@hookimpl
def export(tracker: str, passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]) -> str | None:
    """Upload a finished run, or write it for `wandb sync`."""
    from .place import TRACKER

    if tracker != TRACKER:
        return None
    from .export import export as write

    return write(passport, target, rows)


@hookimpl
def commands() -> Mapping[str, tuple[str, str]]:
    """`tm wandb view`."""
    return {"view": ("trainmeter_wandb.view:command", "save a workspace view of trainmeter's series")}
