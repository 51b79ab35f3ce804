"""Learns torch's own test for "a compiler is tracing this": the model taps give way while it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import model

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    pass


def install(module: ModuleType, agent: Agent) -> Undo:  # noqa: ARG001 - every tap has this signature
    """Take `torch.compiler.is_compiling`, which torch.compile folds to True."""
    model._compiling = module.is_compiling  # noqa: SLF001 - the two taps are one mechanism

    def undo() -> None:
        model._compiling = model._never_compiling  # noqa: SLF001

    return undo
