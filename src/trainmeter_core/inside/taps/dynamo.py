"""Keeps torch.compile from compiling the agent itself, where it runs between the graphs of a compiled function."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

_SITE_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# What is called from within a graph must stay traceable: skipping it would break the graph.
_TRACEABLE = ("model_calls.py", "optimizer.py")


def install(module: ModuleType, agent: Agent) -> Undo:  # noqa: ARG001 - every tap has this signature
    """Add our files to those that `torch._dynamo.trace_rules` leaves to the interpreter."""
    skipped: set[str] = getattr(module, "FORCE_SKIP_FILES", set())
    added = [path for path in _our_files() if path not in skipped]
    for path in added:
        skipped.add(path)

    def undo() -> None:
        for path in added:
            skipped.discard(path)

    return undo


def _our_files() -> list[str]:
    files = []
    for package in os.listdir(_SITE_PACKAGES):
        if package.startswith("trainmeter_"):
            for directory, _, names in os.walk(os.path.join(_SITE_PACKAGES, package)):
                files += [
                    os.path.join(directory, name) for name in names if name.endswith(".py") and name not in _TRACEABLE
                ]
    return files
