"""The bytes in a description: which weights a pass reads, and which a step's gradients and updates take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the skip

from tests.shape_from.shape_models import GPT, GPTConfig  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402
from trainmeter_core.weight_traffic import Traffic, traffic_of  # noqa: E402


def bytes_of(model):
    return describe(model)["bytes"]


def test_a_table_is_no_read_and_a_bias_none_of_the_backward():
    """10 x 4 rows are looked up; 4 x 8 + 8 read forward, 4 x 8 backward, all 80 trained: of 4 bytes each."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 8))
    assert bytes_of(model) == {
        "forward": {"float32": 160},
        "backward": {"float32": 128},
        "gradients": 320,
        "trained": 320,
    }


def test_the_first_layer_needs_no_gradient_of_the_input():
    assert bytes_of(nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 2, bias=False))) == {
        "forward": {"float32": 4 * 48},
        "backward": {"float32": 4 * 16},
        "gradients": 4 * 48,
        "trained": 4 * 48,
    }


def test_a_tied_table_is_read_once_as_the_head():
    """40,672 parameters, of which 16 x 32 are a position table: the shared 96 x 32 are read and trained once."""
    description = describe(GPT(GPTConfig()))
    read = 4 * (40_672 - 512)
    assert description["bytes"]["forward"] == description["bytes"]["backward"] == {"float32": read}
    assert traffic_of(description, known(shape_of(description))[0]) == Traffic(2 * read, 4 * 4 * 40_672)


def test_frozen_weights_are_read_and_not_trained():
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 2, bias=False))
    model[0].weight.requires_grad_(False)
    told = bytes_of(model)
    assert told["forward"] == {"float32": 4 * 48}
    assert told["backward"] == {}
    assert told["gradients"] == told["trained"] == 4 * 16


def test_each_dtype_has_its_own_bytes():
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 2, bias=False).bfloat16())
    assert bytes_of(model)["forward"] == {"float32": 4 * 32, "bfloat16": 2 * 16}


def test_a_packed_weight_has_the_bytes_that_it_is_stored_in():
    """4-bit quantization leaves a column of bytes, two weights in each."""
    model = nn.Linear(4, 8, bias=False)
    model.weight = nn.Parameter(torch.zeros(16, 1, dtype=torch.uint8), requires_grad=False)
    assert bytes_of(model)["forward"] == {"uint8": 16}


def test_a_weight_in_a_format_of_its_own_makes_the_bytes_unknown():
    """A tensor subclass says bfloat16 and may store something else."""
    from torch.testing._internal.two_tensor import TwoTensor

    model = nn.Linear(4, 8, bias=False)
    model.weight = nn.Parameter(TwoTensor(torch.zeros(8, 4), torch.zeros(8, 4)), requires_grad=False)
    assert bytes_of(model) is None


def test_a_sparse_tables_gradient_has_only_some_rows():
    assert bytes_of(nn.Embedding(10, 4, sparse=True))["gradients"] == 0


FSDP2 = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
sys.path.insert(0, sys.argv[1])
from shape_models import GPT, GPTConfig
from trainmeter_core.inside.describe import describe
model = GPT(GPTConfig())
whole = describe(model)["bytes"]
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.device_mesh.init_device_mesh("cpu", (4,))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
fully_shard(model, mesh=mesh, mp_policy=policy)
told = describe(model)["bytes"]
assert told["forward"] == {"bfloat16": whole["forward"]["float32"] // 2}, told
assert told["backward"] == {"bfloat16": whole["backward"]["float32"] // 2}, told
assert told["gradients"] == whole["gradients"] // 2, told
assert told["trained"] == whole["trained"] // 4, told
"""


def test_a_rank_of_a_sharded_model_reads_all_of_it_and_updates_its_share():
    """Of four ranks under fully_shard in mixed precision: whole weights in bfloat16, a quarter of the float32 ones."""
    here = str(Path(__file__).parents[1] / "shape_from")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FSDP2, here], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
