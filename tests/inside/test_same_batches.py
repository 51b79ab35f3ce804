"""How many ranks are given one batch, read off the meshes of parameters, without a process group."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

from trainmeter_core.inside.same_batches import same_batches, whole_sequences


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
from trainmeter_core.inside.same_batches import same_batches, whole_sequences
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


TOLD = """
import torch, torch.distributed as dist
from types import SimpleNamespace
from trainmeter_core.inside import parallel, same_batches
from trainmeter_core.inside.taps import parallel as tap
import torch.distributed.device_mesh as module
undo = tap.install(module, SimpleNamespace())
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank={rank}, world_size=16)
mesh = init_device_mesh("cpu", {shape}, mesh_dim_names={names})
undo()
assert module.init_device_mesh is init_device_mesh.__wrapped__
model = torch.nn.Linear(2, 2)
said = []
agent = SimpleNamespace(ended=SimpleNamespace(), model=SimpleNamespace(roots=[lambda: model]), identity=SimpleNamespace(rank={rank}, world_size=16),
                        event=lambda kind, fields: said.append((kind, fields.get("code", fields))))
same_batches.share_batches(agent, torch.optim.SGD(model.parameters(), lr=0.1))
told = agent.ended
print(told.batch_ranks, told.batches_of_another, told.sequence_parts, *[what for kind, what in said if kind == "verdict"])
"""


@pytest.mark.parametrize(
    ("names", "shape", "rank", "expected"),
    [
        (("dp_replicate", "dp_shard"), (4, 4), 5, "1 False 1"),
        (("dp", "tp"), (8, 2), 0, "2 False 1 same-batches"),
        (("dp", "tp"), (8, 2), 1, "2 True 1"),
        (("pp", "dp"), (2, 8), 7, "2 False 1 same-batches"),
        (("pp", "dp"), (2, 8), 8, "2 True 1"),
        (("dp_replicate", "dp_shard", "cp"), (2, 4, 2), 2, "2 False 2 shared-sequences"),
        (("dp_shard", "cp"), (8, 2), 3, "2 True 2"),
        (("pp", "dp", "cp", "tp"), (2, 2, 2, 2), 4, "8 False 2 same-batches shared-sequences"),
        (("pp", "dp", "cp", "tp"), (2, 2, 2, 2), 12, "8 True 2"),
        (None, (16,), 0, "1 False 1 assumed-batches"),
        (None, (16,), 3, "1 False 1"),
    ],
)  # fmt: skip
def test_the_meshes_that_the_program_makes_tell_who_counts(names, shape, rank, expected):
    program = TOLD.format(names=names, shape=shape, rank=rank)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(
    ("ranks", "rank", "expected"),
    [
        ("tensor_model_parallel_size=2", 0, "2 False 1 same-batches"),
        ("tensor_model_parallel_size=2", 3, "2 True 1"),
        ("pipeline_model_parallel_size=2", 7, "2 False 1 same-batches"),
        ("pipeline_model_parallel_size=2", 8, "2 True 1"),
        ("context_parallel_size=2", 2, "2 False 2 shared-sequences"),
        ("context_parallel_size=2", 3, "2 True 2"),
        ("tensor_model_parallel_size=2, context_parallel_size=2, pipeline_model_parallel_size=2", 4,
         "8 False 2 same-batches shared-sequences"),
        ("tensor_model_parallel_size=2, context_parallel_size=2, pipeline_model_parallel_size=2", 6, "8 True 2"),
        ("tensor_model_parallel_size=1", 0, "1 False 1"),
    ],
)  # fmt: skip
def test_megatrons_groups_tell_who_counts(ranks, rank, expected):
    """Neighbouring ranks share a tensor, then a sequence; the pipeline's stages are the halves of all."""
    pytest.importorskip("megatron.core")
    mesh = 'mesh = init_device_mesh("cpu", {shape}, mesh_dim_names={names})\n'
    assert mesh in TOLD
    program = (
        TOLD.replace(mesh, f"module.initialize_model_parallel({ranks}, create_gloo_process_groups=False)\n")
        .replace("torch.distributed.device_mesh as module", "megatron.core.parallel_state as module")
        .replace("module.init_device_mesh is init_device_mesh.__wrapped__", "not hasattr(module.initialize_model_parallel, '__wrapped__')")
        .format(rank=rank)
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == expected, done.stderr


def test_parts_of_sequences_count_as_the_whole():
    batches = {(4, 8, 0): 3, (2, 16, 4): 1}
    whole_sequences(batches, 2)
    assert batches == {(4, 16, 0): 3, (2, 32, 8): 1}
