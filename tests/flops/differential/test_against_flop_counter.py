"""exact equals torch's FlopCounterMode on a real forward and backward pass, where only the causal mask differs.

The pass runs on the CPU with attention as plain matmuls, because the counter sees nothing of a fused CPU kernel.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.flops.differential.tiny_models import CASES, TARGET_LEN, B, T, inputs_of, model_of  # noqa: E402 - after the skips
from trainmeter_core.flops import training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import AttentionCore, Batch, Matmul, ModelShape, Scan, Stream  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402

COUNTED = [name for name in CASES if name != "mamba"]  # its scan and grouped convolution are a test of their own


def eager(name):
    """On the CPU, with attention and experts as matmuls."""
    mixture = {"experts_implementation": "eager"} if "experts" in str(CASES[name].numbers) else {}
    return model_of(CASES[name], "cpu", attn_implementation="eager", **mixture)


def counted(model, inputs):
    with FlopCounterMode(display=False) as counter:
        model(**inputs).loss.backward()
    return counter


def without_mask(shape):
    """The counter sees all of T * T, whatever the mask."""
    parts = (replace(c, causal=False, window=None) if isinstance(c, AttentionCore) else c for c in shape.components)
    return replace(shape, components=tuple(parts))


def exact(model, case):
    shape, _source = known(shape_of(json.loads(json.dumps(describe(model)))))
    batch = {
        "tokens": Batch(B, T),
        "pairs": Batch(B, T, TARGET_LEN),
        "sound": Batch(B, 1, TARGET_LEN),
        "image": Batch(B, 1),
    }[case.inputs]
    return training_flops("exact", without_mask(shape), batch)


@pytest.mark.parametrize("name", COUNTED)
def test_a_model_with_everything_trainable(name, same):
    model = eager(name)
    flops = counted(model, inputs_of(CASES[name], model.config, "cpu")).get_total_flops()
    same(name, "FlopCounterMode", exact(model, CASES[name]), flops)


FROZEN = {
    "llama: embeddings": ("llama", lambda n: "embed_tokens" in n),
    "llama: embeddings and first layer": ("llama", lambda n: "embed_tokens" in n or "layers.0." in n),
    "llama: all but the last layer and the head": ("llama", lambda n: "layers.2." not in n and "lm_head" not in n),
    "llama: all but the head": ("llama", lambda n: "lm_head" not in n),
    "llama: all but the norms": ("llama", lambda n: "norm" not in n),
    "llama biases: all but the biases": ("llama biases", lambda n: "bias" not in n),
    "gpt2: the tied table": ("gpt2", lambda n: "wte" in n),
    "bert: embeddings": ("bert", lambda n: "embeddings" in n),
    "vit: all but the classifier": ("vit", lambda n: "classifier" not in n),
    "t5 gated: encoder": ("t5 gated", lambda n: "encoder." in n or "shared" in n),
}


@pytest.mark.parametrize("case", FROZEN)
def test_frozen_weights_cost_what_autograd_needs(case, same):
    """4 FLOPs per frozen weight where its input needs a gradient, 2 below the first trainable operation."""
    name, is_frozen = FROZEN[case]
    model = eager(name)
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(not is_frozen(parameter_name))
    flops = counted(model, inputs_of(CASES[name], model.config, "cpu")).get_total_flops()
    same(f"frozen {case}", "FlopCounterMode", exact(model, CASES[name]), flops)


LORA = {
    "llama: q and v": ("llama", ["q_proj", "v_proj"]),
    "llama: k": ("llama", ["k_proj"]),
    "llama: MLP": ("llama", ["gate_proj", "up_proj", "down_proj"]),
    "llama: down": ("llama", ["down_proj"]),
    "llama: all": ("llama", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "gpt2: fused qkv": ("gpt2", ["c_attn"]),
    "phi3: fused qkv": ("phi3", ["qkv_proj"]),
}


@pytest.mark.parametrize("for_checkpointing", [False, True])
@pytest.mark.parametrize("case", LORA)
def test_adapters_cost_what_autograd_needs(case, for_checkpointing, same):
    """With input gradients forced on, as gradient checkpointing needs, the first layer's frozen weights cost 4 too."""
    peft = pytest.importorskip("peft")
    name, targets = LORA[case]
    base = eager(name)
    if for_checkpointing:
        base.enable_input_require_grads()
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=targets))
    flops = counted(model, inputs_of(CASES[name], base.config, "cpu")).get_total_flops()
    suffix = ", input gradients" if for_checkpointing else ""
    same(f"LoRA {case}{suffix}", "FlopCounterMode", exact(model, CASES[name]), flops)


def test_mamba_differs_by_its_scan_and_its_grouped_convolution():
    """The counter reads the reference scan's one matmul, and takes a grouped weight gradient for an ungrouped one."""
    model = eager("mamba")
    counter = counted(model, inputs_of(CASES["mamba"], model.config, "cpu"))
    per_op = counter.get_flop_counts()["Global"]
    shape, _source = known(shape_of(describe(model)))
    linears = tuple(m for m in shape.matmuls if m.role != "ssm.conv")
    per_scan = sum(2 * 3 * scan.flops // 7 * scan.count for scan in shape.scans) * B * T
    no_convolution = sum(flops for op, flops in per_op.items() if "convolution" not in str(op))
    assert training_flops("exact", replace(shape, components=linears), Batch(B, T)) == no_convolution - per_scan
    assert sum(isinstance(part, Scan) for part in shape.components) == 1


CONVOLUTIONS = {
    "Conv1d": (nn.Conv1d(4, 8, 3, padding=1, bias=False), (4, 10), 4 * 3, 8, 10),
    "Conv2d": (nn.Conv2d(4, 8, 3, stride=2, bias=False), (4, 11, 11), 4 * 9, 8, 25),
    "Conv3d": (nn.Conv3d(2, 4, 3, bias=False), (2, 5, 5, 5), 2 * 27, 4, 27),
    "Conv2d dilated": (nn.Conv2d(4, 8, 3, dilation=2, bias=False), (4, 9, 9), 4 * 9, 8, 25),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 8, 3, bias=False), (4, 5, 5), 4, 8 * 9, 25),
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_convolution_is_a_matmul_at_each_position(kind, same):
    """inputs x outputs of the weight at each output position; at each input position when transposed."""
    layer, size, inputs, outputs, positions = CONVOLUTIONS[kind]
    x = torch.randn(B, *size, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    part = Matmul("conv.weight", inputs, outputs, stream=Stream("feature map", positions))
    shape = ModelShape((part,), part.weights, part.weights, 0, 4, 1)
    same(kind, "FlopCounterMode", training_flops("exact", shape, Batch(B, 1)), counter.get_total_flops())
