"""What a program tells of its parallelism as it sets it up: meshes, Megatron's groups, pipeline stages, as numbers."""

from __future__ import annotations

from typing import Any, NamedTuple


class Dimension(NamedTuple):
    """Ranks along one kind of parallelism, and this rank's place among them from 0."""

    ranks: int
    place: int


TENSOR = ("tp", "tensor", "model", "mp")
PIPELINE = ("pp", "pipe", "stage")
SEQUENCE = ("cp", "context", "sp", "seq", "ulysses")
DATA = ("dp", "data", "fsdp", "hsdp", "ddp", "shard", "replicate", "batch", "ep", "expert", "efsdp", "world", *SEQUENCE)
"""How the usual names of mesh dimensions begin. Sequences that are split are data of each rank's own as well."""

_MOST = 64

DEVICE_MESH, MEGATRON = "the device mesh", "Megatron's groups"

_meshes: list[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], str]] = []
"""Names, sizes, this rank's coordinate, and what told them."""
_stages: list[tuple[int, int, int]] = []
"""Index and number of stages, and the ranks that hold them."""


def mesh_made(mesh: Any) -> None:
    """A device mesh was made; one without names, or without this rank, tells nothing."""
    names, coordinate = mesh.mesh_dim_names, mesh.get_coordinate()
    if names and coordinate is not None and len(_meshes) < _MOST:
        _meshes.append(
            (tuple(names), tuple(int(size) for size in mesh.shape), tuple(int(at) for at in coordinate), DEVICE_MESH)
        )


def megatron_groups_made(state: Any) -> None:
    """`megatron.core.parallel_state` has set up its groups; before context parallelism it knew two kinds."""
    found = []
    for name, group in (("tp", "tensor_model"), ("pp", "pipeline_model"), ("cp", "context")):
        size, rank = (getattr(state, "get_" + group + "_parallel_" + what, None) for what in ("world_size", "rank"))
        if size is not None and rank is not None:
            found.append((name, int(size()), int(rank())))
    names, shape, coordinate = zip(("dp", 1, 0), *found)
    if len(_meshes) < _MOST:
        _meshes.append((names, shape, coordinate, MEGATRON))


def stage_made(stage: Any) -> None:
    """A stage of `torch.distributed.pipelining` was made on this rank."""
    if len(_stages) < _MOST:
        _stages.append((int(stage.stage_index), int(stage.num_stages), int(stage.group_size)))


def dimension(kind: tuple[str, ...]) -> Dimension:
    """The widest dimension of a kind in the meshes that were made."""
    found = Dimension(1, 0)
    for names, shape, coordinate, _ in _meshes:
        for name, size, at in zip(names, shape, coordinate):
            # A flattened dimension names several kinds: "dp_shard_cp".
            if name.startswith(kind) and size > found.ranks:
                found = Dimension(size, at)
    return found


def pipeline() -> Dimension:
    """Ranks of the pipeline that this one is in; the place is 0 where it has the first stage, which has the batches."""
    if not _stages:
        return dimension(PIPELINE)
    ranks = max(each[2] for each in _stages)
    return Dimension(ranks, min(each[0] for each in _stages))


def stages() -> int:
    """Ranks among which the model's layers are divided; 1 where each has all of them."""
    return pipeline().ranks


def told_by() -> str:
    """What told of the parallelism, in words."""
    return MEGATRON if any(mesh[3] == MEGATRON for mesh in _meshes) else DEVICE_MESH


def named() -> bool:
    """Whether the program told of any."""
    return bool(_meshes or _stages)


def forget() -> None:
    """As in a new process."""
    _meshes.clear()
    _stages.clear()
