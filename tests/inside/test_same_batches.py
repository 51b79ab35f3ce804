"""How many ranks are given one batch, read off the meshes of parameters, without a process group."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

from trainmeter_core.inside.same_batches import same_batches


def parameter(names, shape, coordinate, sharded):
    """A parameter as torch's DTensor shows itself."""
    placements = tuple(Shard(0) if split else Replicate() for split in sharded)
    mesh = SimpleNamespace(mesh_dim_names=names, shape=shape, ndim=len(shape), get_coordinate=lambda: coordinate)
    return SimpleNamespace(device_mesh=mesh, placements=placements)


SHARDED = nn.Linear(2, 2)
SHARDED.__class__ = type("FSDPLinear", (type("FSDPModule", (), {}), nn.Linear), {})


@pytest.mark.parametrize(
    ("names", "shape", "at", "sharded", "model", "expected"),
    [
        (None, (4,), (3,), (True,), None, (4, 3)),
        (None, (4,), (3,), (True,), SHARDED, (1, 0)),
        (None, (2, 2), (0, 1), (False, True), SHARDED, (1, 0)),
        (("tp",), (2,), (0,), (True,), None, (2, 0)),
        (("dp", "tp"), (4, 2), (3, 1), (True, True), SHARDED, (2, 1)),
        (("data_parallel", "tensor_parallel"), (2, 2), (1, 1), (True, True), SHARDED, (2, 1)),
        (("dp_replicate", "dp_shard"), (2, 2), (1, 1), (False, True), None, (1, 0)),
        (("dp_shard_cp",), (8,), (5,), (True,), SHARDED, (1, 0)),
        (("ep",), (8,), (5,), (True,), None, (1, 0)),
        (("tp",), (2,), (1,), (False,), None, (1, 0)),
    ],
    ids=["unnamed, split by hand", "unnamed, fully_shard", "HSDP", "tensor", "2D", "2D, Lightning's names", "named HSDP",
         "with context", "experts", "kept whole"],
)  # fmt: skip
def test_a_mesh_tells_which_ranks_share_a_batch(names, shape, at, sharded, model, expected):
    assert same_batches([parameter(names, shape, at, sharded)], model) == expected


def test_the_most_split_parameter_decides():
    whole = parameter(("tp",), (2,), (1,), (False,))
    split = parameter(("tp",), (2,), (1,), (True,))
    assert same_batches([nn.Parameter(torch.zeros(2)), whole, split, whole]) == (2, 1)


def test_plain_parameters_have_batches_of_their_own():
    assert same_batches(nn.Linear(2, 2).parameters(), nn.Linear(2, 2)) == (1, 0)


REAL = """
import sys
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from trainmeter_core.inside.same_batches import same_batches
def made():
    return nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8))
plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=8)
flat, square = init_device_mesh("cpu", (8,)), init_device_mesh("cpu", (2, 4), mesh_dim_names=("x", "tp"))
for model in (
    fully_shard(made()),
    fully_shard(made(), mesh=init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "b"))),
    parallelize_module(made(), flat, plan),
    fully_shard(parallelize_module(made(), square["tp"], plan), mesh=square["x"]),
):
    print(*same_batches(model.parameters(), model))
"""


def test_of_torch_itself():
    """Rank 5 of 8: FSDP, HSDP, tensor parallel over all, and two by four of both under a name that tells nothing."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", REAL], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["1 0", "1 0", "8 5", "4 1"]
