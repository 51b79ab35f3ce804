"""Learns torch's own test for "a compiler is tracing this": the model taps give way while it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import model_calls

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent


def install(module: ModuleType, agent: Agent) -> Undo:  # noqa: ARG001 - every tap has this signature
    """Take `torch.compiler.is_compiling`, which torch.compile folds to True."""
    model_calls.compiling = module.is_compiling

    def undo() -> None:
        model_calls.compiling = model_calls.never_compiling

    return undo
