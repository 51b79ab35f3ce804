"""The tap: methods of wandb's Run class, which every way of logging passes through.

`wandb.log` and `run.log` were bound long before; both end in `Run._log`. What the user calls runs as it was, outside
our guard, with its own step and commit.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import footer

if TYPE_CHECKING:
    from types import ModuleType

    from trainmeter_core.hookspecs import AgentFace, Undo

    from .publish import Publisher

MODULE = "wandb.sdk.wandb_run"


class Point(NamedTuple):
    """A method of Run to tap: its names by preference, the private one first, and the parameters it must begin with."""

    names: tuple[str, ...]
    parameters: tuple[str, ...]


LOG = Point(("_log", "log"), ("self", "data", "step", "commit"))
START = Point(("_on_start",), ("self",))
FINISH = Point(("_finish", "finish"), ("self",))


def found(cls: type, point: Point) -> str | None:
    """Give the name under which this class has the method as we know it; None when it has not."""
    for name in point.names:
        method = cls.__dict__.get(name)
        if not callable(method):
            continue
        try:
            parameters = tuple(inspect.signature(method).parameters)
        except (TypeError, ValueError):  # not a Python function
            continue
        if parameters[: len(point.parameters)] == point.parameters:
            return name
    return None


def install(module: ModuleType, agent: AgentFace, publisher: Publisher) -> Undo:
    """Tap the module's Run; the undo puts back what was there, by identity.

    Raises RuntimeError when Run has no log method of the form that we know: this client is then left alone.
    """
    cls: type = module.Run
    log_name, start_name, finish_name = (found(cls, point) for point in (LOG, START, FINISH))
    if log_name is None:
        raise RuntimeError("this wandb has another Run.log than trainmeter knows; nothing is published there")
    active: list[bool] = [True]
    taps: dict[str, Any] = {log_name: _log(cls.__dict__[log_name], agent, publisher, active)}
    if start_name is not None:
        taps[start_name] = _start(cls.__dict__[start_name], agent, publisher, active)
    if finish_name is not None:
        taps[finish_name] = _finish(cls.__dict__[finish_name], agent, publisher, active)
    printed = footer.tapped(cls, agent, active)
    if printed is not None:
        taps[footer.METHOD] = printed
    originals = {name: cls.__dict__[name] for name in taps}
    for name, tap in taps.items():
        setattr(cls, name, tap)
    publisher.log_untapped = originals[log_name]

    def undo() -> None:
        active.clear()
        for name, tap in taps.items():
            # Another tool may have wrapped ours since; then ours stays in its chain and only passes on.
            if cls.__dict__.get(name) is tap:
                setattr(cls, name, originals[name])

    return undo


def _log(
    original: Callable[..., Any], agent: AgentFace, publisher: Publisher, active: list[bool]
) -> Callable[..., Any]:
    place = agent.guard("wandb.log")
    logging = agent.logging

    @functools.wraps(original)
    def log(self: Any, data: Any = _NOTHING, step: Any = None, commit: Any = None, *args: Any, **kwargs: Any) -> Any:
        if data is _NOTHING:
            return original(self, *args, **kwargs)  # raises as the user's own call would
        if publisher.silent or not active:
            return original(self, data, step, commit, *args, **kwargs)
        published = data
        if getattr(place, "on", True):
            # Not `with place`: each call of ours that is not made is one less to fetch, between two training steps.
            try:
                merged = publisher.logs(self, data, step, commit)
                if type(merged) is dict:
                    published = merged
            except Exception:  # ours, whatever it is: the guard counts it
                with place:
                    raise
        with logging():
            return original(self, published, step, commit, *args, **kwargs)

    return log


def _start(
    original: Callable[..., Any], agent: AgentFace, publisher: Publisher, active: list[bool]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if active and not publisher.silent:
            with agent.guard("wandb.start"):
                publisher.started(self)
        return result

    return start


def _finish(
    original: Callable[..., Any], agent: AgentFace, publisher: Publisher, active: list[bool]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active or publisher.silent:
            return original(self, *args, **kwargs)
        with agent.guard("wandb.finish"):
            publisher.closes(self)
        with agent.logging():
            return original(self, *args, **kwargs)

    return finish


_NOTHING: Any = object()
