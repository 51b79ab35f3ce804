"""Sees the time spent saving, each call once, and what is loaded: torch, safetensors, distributed checkpoints."""

from __future__ import annotations

import functools
from time import monotonic, time
from typing import TYPE_CHECKING

from .. import span_clock
from ..checkpoints import loaded, saved
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
_LOADERS = {
    "torch.serialization": ("load",),
    "safetensors.torch": ("load_file", "load_model"),
    "torch.distributed.checkpoint.state_dict_loader": ("load",),
}

# A save shorter than this (a few numbers to a buffer) is counted but not worth a line of its own.
_WORTH_A_LINE_S = 0.01


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the module's savers and loaders."""
    originals: dict[str, Any] = {}
    for wrapped, table in ((_timed, _SAVERS), (_noted, _LOADERS)):
        for name in table.get(module.__name__, ()):
            if hasattr(module, name):
                original = originals[name] = getattr(module, name)
                setattr(module, name, wrapped(original, agent, f"{_package(module)}.{name}"))

    def undo() -> None:
        for name, original in originals.items():
            setattr(module, name, original)

    return undo


def _package(module: ModuleType) -> str:
    """torch, safetensors or distributed: what `checkpoints` knows the arguments by."""
    return "distributed" if "distributed" in module.__name__ else module.__name__.partition(".")[0]


def _noted(original: Callable[..., Any], agent: Agent, name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        if not agent.ended.steps and _SITE.on:
            with _SITE:
                loaded(agent, name, args, kwargs)
        return original(*args, **kwargs)

    return load


def _timed(original: Callable[..., Any], agent: Agent, name: str) -> Callable[..., Any]:
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
                    saved(agent, name, args, kwargs)
                    if spent >= _WORTH_A_LINE_S:
                        agent.event("span", {"kind": "checkpoint", "start": time() - spent, "seconds": spent})

    return save
