"""Sees device meshes and pipeline stages being made: they tell which ranks are given the same batches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..guard import site
from ..parallel import mesh_made, stage_made

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable

_SITE = site("parallel")


def install(module: ModuleType, agent: Agent) -> Undo:  # noqa: ARG001 - as every tap
    """Wrap the module's own makers of meshes or stages."""
    places: list[tuple[Any, str]]
    if module.__name__.endswith(".stage"):
        places, told = [(getattr(module, "_PipelineStageBase", None), "__init__")], _stage
    else:
        places, told = [(module, "init_device_mesh"), (getattr(module, "DeviceMesh", None), "_unflatten")], _mesh
    originals = [
        (owner, name, owner.__dict__[name]) for owner, name in places if name in getattr(owner, "__dict__", ())
    ]
    for owner, name, original in originals:
        setattr(owner, name, told(original))

    def undo() -> None:
        for owner, name, original in originals:
            setattr(owner, name, original)

    return undo


def _mesh(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        mesh = original(*args, **kwargs)
        if _SITE.on:
            with _SITE:
                mesh_made(mesh)
        return mesh

    return made


def _stage(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _SITE.on:
            with _SITE:
                stage_made(self)

    return made
