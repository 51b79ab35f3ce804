"""The taps: the logging methods of MLflow's store classes, where every way of logging to a run comes together.

What the user calls runs as it was, outside our guard; ours comes after it. The run is the one that the call names,
never the active one of the fluent interface: Lightning and others have none.
"""

from __future__ import annotations

import functools
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

    from trainmeter_core.hookspecs import AgentFace, Undo

    from .publish import Publisher

# The modules whose import installs the tap, and the store class in each.
MODULES: dict[str, str] = {
    "mlflow.store.tracking.abstract_store": "AbstractStore",
    "mlflow.store.tracking.rest_store": "RestStore",
    "mlflow.store.tracking.sqlalchemy_store": "SqlAlchemyStore",
    "mlflow.store.tracking.file_store": "FileStore",
    "mlflow.store.tracking.databricks_rest_store": "DatabricksTracingRestStore",
}


class _Logs(NamedTuple):
    """One logging method: the argument after run_id that holds metrics, and what the user calls it."""

    argument: str
    called: str


LOGGING: dict[str, _Logs] = {
    "log_metric": _Logs("metric", "synchronous log_metric"),
    "log_batch": _Logs("metrics", "synchronous log_metrics"),
    "log_param": _Logs("", "synchronous log_param"),
    "set_tag": _Logs("", "synchronous set_tag"),
    "log_metric_async": _Logs("metric", "log_metric"),
    "log_batch_async": _Logs("metrics", "log_metrics"),
    "log_param_async": _Logs("", "log_param"),
    "set_tag_async": _Logs("", "set_tag"),
}
ENDING = "update_run_info"


def tapped_of(module_name: str) -> tuple[str, ...]:
    """The methods that a module's store class must have for the tap to fit."""
    if module_name.endswith("abstract_store"):
        return tuple(name for name in LOGGING if name.endswith("_async"))
    if module_name.endswith("databricks_rest_store"):
        return ()
    return (*(name for name in LOGGING if not name.endswith("_async")), ENDING)


def install(module: ModuleType, agent: AgentFace, publisher: Publisher) -> Undo:
    """Tap the module's store class; the undo puts back what was there, by identity."""
    cls = getattr(module, MODULES[module.__name__])
    active: list[bool] = [True]
    originals: dict[str, Any] = {}
    taps: dict[str, Callable[..., Any]] = {}
    for name in (*LOGGING, ENDING):
        original = cls.__dict__.get(name)
        if not callable(original) or getattr(original, "__isabstractmethod__", False):
            continue
        originals[name] = original
        make = _ending if name == ENDING else _logging
        taps[name] = make(name, original, agent, publisher, active)
        setattr(cls, name, taps[name])

    def undo() -> None:
        active.clear()
        for name, tap in taps.items():
            # Another tool may have wrapped ours since; then ours stays in its chain and only passes on.
            if cls.__dict__.get(name) is tap:
                setattr(cls, name, originals[name])

    return undo


def _logging(
    name: str, original: Callable[..., Any], agent: AgentFace, publisher: Publisher, active: list[bool]
) -> Callable[..., Any]:
    argument, called = LOGGING[name]
    place = agent.guard("mlflow." + name)
    inside = publisher.inside

    @functools.wraps(original)
    def tapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active or publisher.silent:
            return original(self, *args, **kwargs)
        me, began = get_ident(), monotonic()
        inside.add(me)
        returned = False
        try:
            with agent.logging():
                result = original(self, *args, **kwargs)
            returned = True
            return result
        finally:
            inside.discard(me)
            if getattr(place, "on", True):
                with place:
                    publisher.waited(called, began)
                    if argument and returned:
                        run_id, logged = _arguments(args, kwargs, argument)
                        # A list may be the user's own, to be filled anew for the next call.
                        publisher.logged(self, run_id, tuple(logged) if argument == "metrics" else (logged,))

    return tapped


def _ending(
    name: str, original: Callable[..., Any], agent: AgentFace, publisher: Publisher, active: list[bool]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def tapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active or publisher.silent:
            return original(self, *args, **kwargs)
        me = get_ident()
        publisher.inside.add(me)
        try:
            with agent.logging():
                result = original(self, *args, **kwargs)
        finally:
            publisher.inside.discard(me)
        place = agent.guard("mlflow." + name)
        if getattr(place, "on", True):
            with place:
                run_id, status = _arguments(args, kwargs, "run_status")
                publisher.updated(self, run_id, status)
        return result

    return tapped


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any], second: str) -> tuple[str, Any]:
    """The run's id and the argument after it, given by place or by name."""
    run_id = args[0] if args else kwargs["run_id"]
    return str(run_id), args[1] if len(args) > 1 else kwargs[second]
