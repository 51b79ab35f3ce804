"""Finds adapters by entry point and gives each a pluggy manager of its own, so that a broken one costs only itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple

from . import hookspecs
from ._pluggy import pluggy
from .entry_points import entry_points

if TYPE_CHECKING:
    from types import ModuleType


class FoundPlugin(NamedTuple):
    """An adapter that the environment of `tm` offers."""

    name: str
    module: str
    directory: str
    """Where its package lies: the agent loads it from there, since the trainer may not have it."""
    trackers: tuple[str, ...]
    """Modules whose import installs its tap."""


def manager_of_one(name: str, module: ModuleType) -> Any:
    """Give a pluggy manager that knows this adapter alone.

    Raises ValueError when the adapter implements a hook as a wrapper, which would wrap nothing.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs.Hooks)
    manager.register(module, name)
    manager.check_pending()
    for caller in manager.get_hookcallers(manager.get_plugin(name)) or ():
        for implementation in caller.get_hookimpls():
            if implementation.hookwrapper or implementation.wrapper:
                raise ValueError("adapter " + name + " implements " + caller.name + " as a wrapper")
    return manager


def managers(found: Iterable[FoundPlugin]) -> Iterator[tuple[str, Any]]:
    """Yield (name, manager) of each adapter; they were imported once already, to be found."""
    from importlib import import_module

    for plugin in found:
        yield plugin.name, manager_of_one(plugin.name, import_module(plugin.module))


def each_plugin(plugins: Iterable[FoundPlugin]) -> list[Any]:
    """Give each adapter's own pluggy manager."""
    return [manager for _, manager in managers(plugins)]


def find_plugins(without: Iterable[str] = ()) -> tuple[list[FoundPlugin], list[tuple[str, str]]]:
    """Give the adapters that entry points of the group offer, and (name, reason) of those that cannot be used."""
    from importlib import import_module

    skipped = set(without)
    found: list[FoundPlugin] = []
    broken: list[tuple[str, str]] = []
    for entry in entry_points(hookspecs.GROUP):
        if entry.name in skipped:
            continue
        try:
            module = import_module(entry.value)
            answers = manager_of_one(entry.name, module).hook.tracker_modules()
            file = module.__file__ or ""
        except Exception as error:  # noqa: BLE001 - a third party's module may fail in any way
            broken.append((entry.name, type(error).__name__ + ": " + str(error)))
            continue
        depth = module.__name__.count(".") + 1
        directory = file
        for _ in range(depth):
            directory = os.path.dirname(directory)
        trackers = tuple(tracker for answer in answers for tracker in answer)
        found.append(FoundPlugin(entry.name, module.__name__, directory, trackers))
    return found, broken
