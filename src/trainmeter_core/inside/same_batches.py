"""Which ranks are given the same batches: read from the device meshes of sharded parameters; nothing is communicated.

Tensor-parallel ranks hold parts of each layer and work on one batch together, so that only the first of them counts
it. Ranks that shard for data parallelism (FSDP, HSDP, experts) or split the sequence (context) have batches of their
own. A run without a mesh has none to read: all its ranks are taken to have batches of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Iterable

_TENSOR = ("tp", "tensor", "model", "mp")
_OWN_BATCHES = ("dp", "data", "fsdp", "hsdp", "ddp", "shard", "replicate", "ep", "expert", "cp", "context", "sp", "seq")
"""How the usual names of mesh dimensions begin."""


def share_batches(agent: Agent, optimizer: Any) -> None:
    """Leave the batches that several ranks are given to the first of these."""
    roots = agent.model.roots if agent.model is not None else ()
    model = roots[0]() if roots else None
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    ranks, place = same_batches(parameters, model)
    agent.ended.batches_of_another = place > 0
    if ranks > 1 and not place:
        said = f"by the device mesh, {ranks} ranks at a time are given the same batches, which are counted once"
        agent.event("verdict", {"code": "same-batches", "level": "info", "sentence": said})


def same_batches(parameters: Iterable[Any], model: Any = None) -> tuple[int, int]:
    """Give how many ranks are given the batches of this one, itself included, and its place among them from 0.

    A mesh dimension counts where a parameter is split along it, unless its name, or a `fully_shard` of the model,
    says that it is one of data parallelism.
    """
    sharded: bool | None = None
    most, place = 1, 0
    met = set()
    for parameter in parameters:
        mesh = getattr(parameter, "device_mesh", None)
        placements = getattr(parameter, "placements", None)
        if mesh is None or placements is None or (id(mesh), placements) in met:
            continue
        met.add((id(mesh), placements))
        names = mesh.mesh_dim_names or ("",) * mesh.ndim
        coordinate = mesh.get_coordinate() or (0,) * mesh.ndim
        ranks, at = 1, 0
        for name, size, here, placement in zip(names, mesh.shape, coordinate, placements):
            if not placement.is_shard():
                continue
            if not name.startswith(_TENSOR):
                if name.startswith(_OWN_BATCHES):
                    continue
                if sharded is None:
                    sharded = _is_fully_sharded(model)
                if sharded:
                    continue
            ranks, at = ranks * int(size), at * int(size) + int(here)
        if ranks > most:
            most, place = ranks, at
    return most, place


def _is_fully_sharded(model: Any) -> bool:
    """Whether `fully_shard` was applied to the model or a part of it: it changes the class."""
    modules = model.modules() if hasattr(model, "modules") else ()
    return any(kind.__name__ == "FSDPModule" for module in modules for kind in type(module).__mro__)
