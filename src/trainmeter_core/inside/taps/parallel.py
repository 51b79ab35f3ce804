"""Sees device meshes, Megatron's groups and pipeline stages being made: they tell which ranks have the same batches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..guard import site
from ..parallel import megatron_groups_made, mesh_made, stage_made

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable

_SITE = site("parallel")


_REHEARSALS = ("_forward_metadata_inference", "_backward_metadata_inference", "_shape_inference")
"""Of a stage: it calls its module with tensors without data, to learn the sizes."""


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the module's own makers of meshes, groups or stages."""
    wrapped: list[tuple[Any, str, Any]] = []

    def wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        original = getattr(owner, "__dict__", {}).get(name)
        if original is not None:
            wrapped.append((owner, name, original))
            setattr(owner, name, wrapper(original))

    if module.__name__.endswith(".stage"):
        wrap(getattr(module, "_PipelineStageBase", None), "__init__", _stage)
        for name in _REHEARSALS:
            wrap(getattr(module, "PipelineStage", None), name, lambda original: _unseen(original, agent))
    elif module.__name__.startswith("megatron."):
        wrap(module, "initialize_model_parallel", lambda original: _groups(original, module))
    else:
        wrap(module, "init_device_mesh", _mesh)
        wrap(getattr(module, "DeviceMesh", None), "_unflatten", _mesh)

    def undo() -> None:
        for owner, name, original in wrapped:
            setattr(owner, name, original)

    return undo


def _unseen(original: Callable[..., Any], agent: Agent) -> Callable[..., Any]:
    """A call of the model in which nothing is trained."""

    @functools.wraps(original)
    def rehearsal(*args: Any, **kwargs: Any) -> Any:
        before = agent.step.in_model, agent.paused
        agent.step.in_model = agent.paused = True
        try:
            return original(*args, **kwargs)
        finally:
            agent.step.in_model, agent.paused = before

    return rehearsal


def _mesh(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        mesh = original(*args, **kwargs)
        if _SITE.on:
            with _SITE:
                mesh_made(mesh)
        return mesh

    return made


def _groups(original: Callable[..., None], state: ModuleType) -> Callable[..., None]:
    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if _SITE.on:
            with _SITE:
                megatron_groups_made(state)

    return made


def _stage(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _SITE.on:
            with _SITE:
                stage_made(self)

    return made
