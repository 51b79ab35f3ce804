"""Which ranks are given the same batches: read from sharded parameters, device meshes and pipeline stages.

Nothing is communicated. Tensor-parallel ranks hold parts of each layer and work on one batch together, so that only the
first of them counts it. Of a pipeline only the first stage is given tokens; the others see what it makes of them. Ranks
that share a sequence (context parallelism) have parts of equal length of it, so that the first of them counts it as a
whole. Ranks that shard for data parallelism (FSDP, HSDP, experts) have batches of their own. A run that tells of none
of these is taken to have batches of its own on every rank, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .parallel import DATA, SEQUENCE, TENSOR, Dimension, dimension, named, pipeline, told_by

if TYPE_CHECKING:
    from .agent import Agent
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any, Iterable

_DATA_PARALLEL = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")


def share_batches(agent: Agent, optimizer: Any) -> None:
    """Leave the batches that several ranks are given to the first of these, and say so."""
    roots = agent.model.roots if agent.model is not None else ()
    model = roots[0]() if roots else None
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    ranks, place = same_batches(parameters, model)
    tensor = max(Dimension(ranks, place), dimension(TENSOR), key=lambda each: each.ranks)
    stages, parts = pipeline(), dimension(SEQUENCE)
    agent.ended.batch_ranks = tensor.ranks * stages.ranks * parts.ranks
    agent.ended.batches_of_another = tensor.place > 0 or stages.place > 0 or parts.place > 0
    agent.ended.sequence_parts = parts.ranks
    if agent.ended.batch_ranks > 1:
        agent.event("parallel", {"batch_ranks": agent.ended.batch_ranks, "counts": not agent.ended.batches_of_another})
    if agent.ended.batches_of_another:
        return
    if tensor.ranks * stages.ranks > 1:
        ranks = tensor.ranks * stages.ranks
        said = f"by {told_by()}, {ranks} ranks at a time are given the same batches, which are counted once"
        _say(agent, "same-batches", said)
    if parts.ranks > 1:
        said = f"by {told_by()}, {parts.ranks} ranks at a time share each sequence, which is counted as a whole"
        _say(agent, "shared-sequences", said)
    if agent.identity.rank == 0 and agent.ended.batch_ranks == 1 and not named() and not _is_data_parallel(model):
        world = agent.identity.world_size
        said = f"neither a device mesh nor DDP was seen: each of the {world} ranks is taken to have batches of its own"
        _say(agent, "assumed-batches", said)


def _say(agent: Agent, code: str, sentence: str) -> None:
    agent.event("verdict", {"code": code, "level": "info", "sentence": sentence})


def whole_sequences(batches: dict[Shape, int], parts: int) -> None:
    """Count the parts of sequences as the whole ones that they are of."""
    whole = {(count, length * parts, target * parts): calls for (count, length, target), calls in batches.items()}
    batches.clear()
    batches.update(whole)


def _is_data_parallel(model: Any) -> bool:
    modules = model.modules() if hasattr(model, "modules") else ()
    return any(kind.__name__ in _DATA_PARALLEL for module in modules for kind in type(module).__mro__)


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
            if not name.startswith(TENSOR):
                if name.startswith(DATA):
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
