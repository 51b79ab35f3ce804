"""Sees the optimizer steps that a gradient scaler skips, without reading the device's verdict."""

from __future__ import annotations

import functools

from ..guard import site, unseen

MYPY = False
if MYPY:
    from types import ModuleType
    from typing import Any

    from ...hookspecs import Undo
    from ..agent import Agent

_SITE = site("gradient scaler")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap `GradScaler.step`: a call in which no optimizer stepped was a skipped step."""
    scaler = module.GradScaler
    original = scaler.step

    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = agent.optimizer_events
        try:
            result = original(self, optimizer, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        if _SITE.on and agent.optimizer_events == before:
            try:
                agent.step_skipped(optimizer)
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)
        return result

    scaler.step = step

    def undo() -> None:
        scaler.step = original

    return undo
