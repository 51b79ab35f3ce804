"""Sees the time spent saving: torch.save, safetensors and torch.distributed.checkpoint, each call counted once."""

from __future__ import annotations

import functools
from time import monotonic, time
from typing import TYPE_CHECKING

from .. import span_clock
from ..guard import site, unseen

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable


_SITE = site("checkpoint")

_SAVERS = {
    "torch.serialization": ("save",),
    "safetensors.torch": ("save_file", "save_model"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
}

# A save shorter than this (a few numbers to a buffer) is counted but not worth a line of its own.
_WORTH_A_LINE_S = 0.01


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the module's savers."""
    originals = {name: getattr(module, name) for name in _SAVERS[module.__name__] if hasattr(module, name)}
    for name, original in originals.items():
        setattr(module, name, _timed(original, agent))

    def undo() -> None:
        for name, original in originals.items():
            setattr(module, name, original)

    return undo


def _timed(original: Callable[..., Any], agent: Agent) -> Callable[..., Any]:
    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        start = monotonic()
        outer: int | None = None
        if _SITE.on:
            with _SITE:
                # One saver calls another; the outermost call is the checkpoint.
                if agent.step.current != span_clock.CHECKPOINT:
                    outer = agent.step.enter(span_clock.CHECKPOINT)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if outer is not None:
                with _SITE:
                    agent.step.leave(outer)
                    spent = monotonic() - start
                    if spent >= _WORTH_A_LINE_S:
                        agent.event("span", {"kind": "checkpoint", "start": time() - spent, "seconds": spent})

    return save
