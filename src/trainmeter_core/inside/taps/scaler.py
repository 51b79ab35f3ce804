"""Sees the optimizer steps that a gradient scaler skips, without reading the device's verdict."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..guard import site, unseen

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_SITE = site("gradient scaler")


def _events(agent: Agent) -> int | None:
    try:
        return agent.step.optimizer_events
    except Exception as error:  # noqa: BLE001 - anything of ours
        _SITE.failed(error)
        return None


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap `GradScaler.step`: a call in which no optimizer stepped was a skipped step."""
    scaler = module.GradScaler
    original = scaler.step

    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = _events(agent)
        try:
            result = original(self, optimizer, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        if _SITE.on and before is not None:
            try:
                if agent.step.optimizer_events == before:
                    agent.step_skipped(optimizer)
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)
        return result

    scaler.step = step

    def undo() -> None:
        scaler.step = original

    return undo
