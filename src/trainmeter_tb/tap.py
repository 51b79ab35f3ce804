"""The taps: methods of the EventFileWriter class of tensorboard's and tensorboardX's package.

Every writer of torch, Lightning and the Hugging Face Trainer passes there. What the user calls runs as it was, outside
our guard; ours runs after it (before it, when a writer closes).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from .events import told_by
from .sink import Package, Sink

if TYPE_CHECKING:
    from types import ModuleType

    from trainmeter_core.hookspecs import AgentFace, Undo

    from .publish import Publisher

# The modules whose import installs the tap, and where each package keeps its Layout proto.
MODULES: dict[str, str] = {
    "tensorboard.summary.writer.event_file_writer": "tensorboard.plugins.custom_scalar.layout_pb2",
    "tensorboardX.event_file_writer": "tensorboardX.proto.layout_pb2",
}

TAPPED = ("__init__", "add_event", "close")


def install(module: ModuleType, agent: AgentFace, publisher: Publisher) -> Undo:
    """Tap the module's EventFileWriter; the undo puts back what was there, by identity."""
    cls = module.EventFileWriter
    originals = {name: cls.__dict__[name] for name in TAPPED}
    layout = MODULES[module.__name__]
    package = Package(module.event_pb2.Event, originals["add_event"], cls.__dict__["flush"], layout)

    def ours(site: str, work: Callable[[], None]) -> None:
        place = agent.guard("tensorboard." + site)
        if getattr(place, "on", True):
            with place:
                work()

    @functools.wraps(originals["__init__"])
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        originals["__init__"](self, *args, **kwargs)
        if active and not publisher.silent:
            ours("open", lambda: publisher.opened(Sink(self, package)))

    @functools.wraps(originals["add_event"])
    def add_event(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active or publisher.silent:
            return originals["add_event"](self, *args, **kwargs)
        with agent.logging():
            result = originals["add_event"](self, *args, **kwargs)
        event = args[0] if args else kwargs.get("event")
        ours("add_event", lambda: publisher.wrote(Sink(self, package), told_by(event)))
        return result

    @functools.wraps(originals["close"])
    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active or publisher.silent:
            return originals["close"](self, *args, **kwargs)
        ours("close", lambda: publisher.closes(Sink(self, package)))
        with agent.logging():
            return originals["close"](self, *args, **kwargs)

    active: list[bool] = [True]
    # By our own names: a method that another tool wrapped may call itself anything.
    taps: dict[str, Callable[..., Any]] = {"__init__": __init__, "add_event": add_event, "close": close}
    for name, tap in taps.items():
        setattr(cls, name, tap)

    def undo() -> None:
        active.clear()
        for name, tap in taps.items():
            # Another tool may have wrapped ours since; then ours stays in its chain and only passes on.
            if cls.__dict__.get(name) is tap:
                setattr(cls, name, originals[name])

    return undo
