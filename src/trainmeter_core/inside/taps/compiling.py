"""Learns torch's own tests for "a compiler is tracing this", where the model taps give way, and "with gradients"."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import model_calls

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent


def install(module: ModuleType, agent: Agent) -> Undo:  # noqa: ARG001 - every tap has this signature
    """Take `torch.compiler.is_compiling`, which torch.compile folds to True."""
    model_calls.compiling = module.is_compiling
    model_calls.grad_enabled = getattr(sys.modules.get("torch"), "is_grad_enabled", model_calls.ask_torch)

    def undo() -> None:
        model_calls.compiling = model_calls.never_compiling
        model_calls.grad_enabled = model_calls.ask_torch

    return undo
