"""An open event writer of the user's, written to by its own calls as they were before our tap."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple

from .events import add_row, add_string

if TYPE_CHECKING:
    from types import ModuleType


class Package(NamedTuple):
    """One of the two packages that write event files: its Event class, its untapped calls, its Layout's module."""

    event: Any
    add_event: Callable[..., Any]
    flush: Callable[..., Any]
    layout_module: str


class Sink(NamedTuple):
    """Where one row or string goes. Writing raises what the user's own writer raises, `OSError` when it is closed."""

    writer: Any
    package: Package

    def row(self, row: Mapping[str, float], step: int, wall_time: float) -> None:
        """Write one event that holds all finite values of a row."""
        event = self.package.event(step=step, wall_time=wall_time)
        add_row(event, row)
        self.package.add_event(self.writer, event)

    def string(self, tag: str, plugin: str, content: bytes, step: int) -> None:
        """Write one string for a plugin of TensorBoard's; with a step, since readers purge what comes out of order."""
        event = self.package.event(step=step, wall_time=time.time())
        add_string(event, tag, plugin, content)
        self.package.add_event(self.writer, event)

    def layout_class(self) -> Any:
        """Give the package's Layout proto; its summary writer has imported it already."""
        module: ModuleType = importlib.import_module(self.package.layout_module)
        return module.Layout

    def takes_events(self) -> bool:
        """False when the thread that empties the writer's queue is gone: writing would then wait without end."""
        inner = getattr(self.writer, "_async_writer", self.writer)
        worker = getattr(inner, "_worker", None)
        return worker is None or bool(worker.is_alive())

    def flush(self) -> None:
        """Bring everything to the file."""
        self.package.flush(self.writer)
