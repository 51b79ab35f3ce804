"""The description of a live model: what it counts, what it sees through, and what it bears."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the skip

from tests.shape_from.shape_models import GPT, GPTConfig  # noqa: E402
from trainmeter_core.inside.describe import describe, unwrapped  # noqa: E402


def entry(description, names):
    (found,) = [e for e in description["modules"] if e["names"] == names]
    return found


def test_layers_alike_are_one_entry_with_a_count():
    found = entry(describe(GPT(GPTConfig(bias=True))), "transformer.h.*.attn.c_attn")
    assert (found["kind"], found["shape"], found["bias"], found["count"]) == ("linear", [96, 32], True, 3)


def test_a_shared_tensor_counts_once_and_the_later_module_is_tied():
    model = GPT(GPTConfig())
    description = describe(model)
    assert entry(description, "lm_head")["tied"] is True
    assert entry(description, "transformer.wte")["tied"] is False
    assert description["params"] == {
        "total": sum(p.numel() for p in model.parameters()),
        "trainable": sum(p.numel() for p in model.parameters()),
        "lookup": 96 * 32 + 16 * 32,
        "position_lookup": 16 * 32,
        "norm_bias": 7 * 32,
    }


def test_the_config_is_kept_as_primitives_with_its_class():
    description = describe(GPT(GPTConfig()))
    assert description["config"]["n_head"] == 4
    assert description["config_class"] == "GPTConfig"
    assert description["class"] == "GPT"
    assert description["dtype"] == "float32"
    assert json.loads(json.dumps(description)) == description


def test_a_config_of_odd_values_keeps_what_can_be_kept():
    model = nn.Linear(2, 2)
    model.config = SimpleNamespace(dim=4, layers=[1, 2], fn=print, nested=object(), text_config=SimpleNamespace(dim=8))
    assert describe(model)["config"] == {"dim": 4, "layers": [1, 2], "text_config": {"dim": 8}}


def test_what_looks_like_a_secret_in_a_config_stays_there():
    """The description goes to the log, the passport and the tracker; settings that only sound like it go along."""
    key = "hf_" + "aB3" * 12
    model = nn.Linear(2, 2)
    model.hparams = {
        "api_key": "0123", "hub_token": key, "wandb": {"key": key}, "url": "https://me:word@host/x", "note": f"by {key}",
        "keys": [key, "plain"], "pad_token": "<pad>", "bos_token_id": 1, "hidden_act": "gelu_pytorch_tanh",
        "base": "meta-llama/Llama-3.1-8B-Instruct", "max_tokens": 7, "text": "x" * 5000,
    }  # fmt: skip
    config = describe(model)["config"]
    assert key not in json.dumps(config)
    assert config["api_key"] == config["hub_token"] == "[redacted]"
    assert config["url"] == "https://[redacted]@host/x"
    assert config["keys"][1] == "plain"
    assert [config[name] for name in ("pad_token", "bos_token_id", "hidden_act", "base", "max_tokens")] == [
        "<pad>", 1, "gelu_pytorch_tanh", "meta-llama/Llama-3.1-8B-Instruct", 7,
    ]  # fmt: skip
    assert config["text"] == "[5000 characters]"


def test_a_config_of_the_first_child_is_taken_when_the_root_has_none():
    wrapper = nn.Module()
    wrapper.net = GPT(GPTConfig())
    assert describe(wrapper)["config_class"] == "GPTConfig"


def test_a_config_that_raises_is_no_config():
    class Angry:
        def to_dict(self):
            raise RuntimeError("no")

    model = nn.Linear(2, 2)
    model.config = Angry()
    assert describe(model)["config"] is None


def test_frozen_weights_are_told_apart():
    model = GPT(GPTConfig())
    for p in model.transformer.h[0].parameters():
        p.requires_grad = False
    entries = [e for e in describe(model)["modules"] if e["names"] == "transformer.h.*.mlp.c_fc"]
    assert sorted((e["trainable"], e["count"]) for e in entries) == [(False, 1), (True, 2)]


def test_input_grad_says_whether_something_trainable_comes_before():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert [e["input_grad"] for e in describe(model)["modules"] for _ in range(e["count"])] == [False, False, True]


@pytest.mark.parametrize("wrapper", ["OptimizedModule", "DistributedDataParallel", "PeftModelForCausalLM"])
def test_wrappers_are_seen_through(wrapper):
    model = nn.Linear(2, 2)
    attributes = {
        "OptimizedModule": {"_orig_mod": model},
        "DistributedDataParallel": {"module": model},
        "PeftModelForCausalLM": {"base_model": SimpleNamespace(model=model)},
    }[wrapper]
    assert unwrapped(type(wrapper, (), attributes)()) is model


def test_a_compiled_model_is_described_as_itself():
    model = GPT(GPTConfig())
    assert describe(torch.compile(model)) == describe(model)


def test_a_lazy_module_is_skipped_and_told():
    description = describe(nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3)))
    assert [e["names"] for e in description["modules"]] == ["*"]
    assert description["skipped"] == 1


def test_any_object_at_all_is_described_without_an_error():
    class Odd:
        @property
        def config(self):
            raise ValueError("no")

        def named_modules(self):
            return [("", object()), ("x", None)]

    assert describe(Odd())["main_input"] is None
    for thing in (None, 3, object(), Odd()):
        assert describe(thing)["params"]["total"] == 0


def test_a_flat_shard_or_a_packed_weight_counts_as_the_whole():
    """FSDP1 leaves a one-dimensional shard in place, 4-bit quantization a packed column of bytes."""
    model = nn.ModuleDict({"table": nn.Embedding(10, 4), "norm": nn.LayerNorm(4), "linear": nn.Linear(4, 8)})
    whole = describe(model)
    for parameter in model.parameters():
        parameter.data = torch.zeros(3)
    sharded = describe(model)
    assert sharded["params"] == whole["params"]
    assert [e["shape"] for e in sharded["modules"]] == [e["shape"] for e in whole["modules"]]


def test_the_whole_shape_of_a_partitioned_parameter_is_taken():
    """DeepSpeed ZeRO-3 leaves an empty tensor with the whole shape in ds_shape."""
    model = nn.Linear(4, 8, bias=False)
    model.weight.data = torch.empty(0)
    model.weight.ds_shape = torch.Size((8, 4))
    assert describe(model)["params"]["total"] == 32


FSDP2 = """
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
sys.path.insert(0, sys.argv[1])
from shape_models import GPT, GPTConfig
from trainmeter_core.inside.describe import describe
model = GPT(GPTConfig())
before = describe(model)
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
for block in model.transformer.h:
    fully_shard(block, mesh=dist.device_mesh.init_device_mesh("cpu", (4,)))
fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (4,)))
local = sum(p.to_local().numel() for p in model.parameters())
after = describe(model)
print(json.dumps([before["params"], after["params"], local, [e["shape"] for e in before["modules"]], [e["shape"] for e in after["modules"]]]))
"""


def test_a_model_sharded_by_fsdp2_has_its_whole_shapes():
    """Of four ranks, each holds a quarter; the description is of all."""
    here = str(Path(__file__).parents[1] / "shape_from")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FSDP2, here], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    before, after, local, shapes_before, shapes_after = json.loads(run.stdout)
    assert local < before["total"] / 2
    assert after == before
    assert shapes_after == shapes_before


def test_no_data_is_read_and_no_random_number_drawn():
    with torch.device("meta"):
        model = GPT(GPTConfig())
    before = torch.get_rng_state()
    assert describe(model)["params"]["total"] > 0
    assert torch.equal(before, torch.get_rng_state())
