"""Published and executed values, as exact integers of training FLOPs per token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.known import known
from trainmeter_core.flops import flops_per_token, training_flops
from trainmeter_core.flops.executed import executed_flops
from trainmeter_core.model_shape import AttentionCore, Batch, Matmul
from trainmeter_core.shape_from import dense_decoder

T = 1024
BATCH = Batch(8, T)
GPT: dict[str, Any] = {"layers": 18, "width": 2048, "heads": 16, "ffn": 8192, "vocabulary": 32000, "positions": T}
BIASES = {"qkv_bias": True, "o_bias": True, "mlp_bias": True}
NORM_FEATURES = (2 * 18 + 1) * 2048

# The 1.04 B model: GPT-2 style, d 2048, L 18, V 32000, learned positions, untied head without bias.
# hf and the parameters by instantiating GPT2LMHeadModel, megatron by running Megatron-LM's function (d98e8a64).
VARIANTS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "LayerNorm and linear biases": (
        {"norms": 2 * NORM_FEATURES, **BIASES},
        (1_039_622_144, 5_831_933_952, 6_055_526_400, 6_284_918_784, 6_282_018_816, 6_690_717_696),
    ),
    "LayerNorm, no linear biases": (
        {"norms": 2 * NORM_FEATURES},
        (1_039_290_368, 5_829_943_296, 6_055_526_400, 6_282_928_128, 6_282_018_816, 6_688_727_040),
    ),
    "norm weights only": (
        {"norms": NORM_FEATURES},
        (1_039_214_592, 5_829_488_640, 6_055_526_400, 6_282_473_472, 6_282_018_816, 6_688_272_384),
    ),
    "no norm parameters": (
        {"norms": 0},
        (1_039_138_816, 5_829_033_984, 6_055_526_400, 6_282_018_816, 6_282_018_816, 6_687_817_728),
    ),
}
TABLE = ("hf", "megatron", "torchtitan", "nanochat", "all_params")


def table_of(shape, batch=BATCH):
    return tuple(flops_per_token(name, shape, batch) for name in TABLE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gpt2_style_model_of_1_04_b_parameters(variant):
    extra, (parameters, *flops) = VARIANTS[variant]
    shape = dense_decoder(**GPT, **extra)
    assert shape.parameters == parameters
    assert table_of(shape) == tuple(flops)


def test_the_same_model_under_the_other_conventions():
    shape = dense_decoder(**GPT, **VARIANTS["LayerNorm and linear biases"][0])
    assert {
        name: round(known(flops_per_token(name, shape, BATCH)) / 1e9, 4)
        for name in ("hf", "megatron", "torchtitan", "nanochat", "all_params", "nanogpt", "chinchilla", "exact")
    } == {
        "hf": 5.8319,
        "megatron": 6.0555,
        "torchtitan": 6.2849,
        "nanochat": 6.2820,
        "all_params": 6.6907,
        "nanogpt": 6.6781,
        "chinchilla": 6.6779,
        "exact": 6.0557,
    }


def test_every_count_of_the_same_model_is_an_exact_integer_of_the_whole_batch():
    shape = dense_decoder(**GPT, **VARIANTS["LayerNorm and linear biases"][0])
    assert training_flops("torchtitan", shape, BATCH) == 8 * T * 6_284_918_784
    assert flops_per_token("megatron_full", shape, BATCH) == 6_282_018_816
    assert flops_per_token("exact", shape, BATCH) == 6_055_526_400 + 6 * 18 * 2048  # the diagonal: (T + 1) / 2
    assert flops_per_token("kaplan", shape, BATCH) == 6 * 12 * 18 * 2048 * 2048


def without_mask(shape):
    """Attention over all of T, as the other tools and the published recomputation factors have it."""
    parts = (replace(c, causal=False) if isinstance(c, AttentionCore) else c for c in shape.components)
    return replace(shape, components=tuple(parts))


def test_the_same_model_by_what_other_tools_add():
    """verl 6.4487, litgpt 6.9927; recomputing all 8.3760, attention alone 6.4330 GFLOPs per token."""
    shape = dense_decoder(**GPT, **VARIANTS["LayerNorm and linear biases"][0])
    table, core = 6 * 32000 * 2048, 12 * 18 * 2048 * T
    assert round((known(flops_per_token("megatron", shape, BATCH)) + table) / 1e9, 4) == 6.4487
    assert round((known(flops_per_token("all_params", shape, BATCH)) + core * 2 / 3) / 1e9, 4) == 6.9927
    full = without_mask(shape)
    assert flops_per_token("exact", full, BATCH) == 6_282_018_816
    assert round(known(executed_flops(full, BATCH, "full")) / BATCH.tokens / 1e9, 4) == 8.3760
    assert round(known(executed_flops(full, BATCH, "attention")) / BATCH.tokens / 1e9, 4) == 6.4330


def test_the_same_model_frozen_below_adapters_of_rank_16_on_q_and_v():
    """4.3532 GFLOPs per token: 4 per frozen weight, 6 per adapter weight, all of the attention."""
    full = without_mask(dense_decoder(**GPT))
    frozen = (replace(c, trainable=False) if isinstance(c, Matmul) else c for c in full.components)
    adapters = (Matmul("adapter.A", 2048, 16, count=36), Matmul("adapter.B", 16, 2048, count=36))
    shape = replace(full, components=(*frozen, *adapters))
    assert round(known(flops_per_token("exact", shape, BATCH)) / 1e9, 4) == 4.3532


def test_a_rotary_swiglu_model_of_the_same_size():
    """V 32768, f 5448: the second configuration that the five published digits fit."""
    shape = dense_decoder(layers=18, width=2048, heads=16, ffn=5448, gated=True, vocabulary=32768, norms=NORM_FEATURES)
    assert shape.parameters == 1_038_788_608
    assert table_of(shape) == (5_830_078_464, 6_056_116_224, 6_283_063_296, 6_282_608_640, 6_685_716_480)


def test_the_rotary_swiglu_model_with_round_widths():
    """V 33280, f 5440: the third."""
    shape = dense_decoder(layers=18, width=2048, heads=16, ffn=5440, gated=True, vocabulary=33280, norms=NORM_FEATURES)
    assert shape.parameters == 1_040_001_024
    assert table_of(shape) == (5_831_061_504, 6_057_099_264, 6_284_046_336, 6_283_591_680, 6_692_990_976)


LLAMA_3_8B = dense_decoder(
    layers=32, width=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocabulary=128256, norms=65 * 4096
)


def test_llama_3_8b_at_8192_tokens():
    """megatron: Megatron-LM's own function was run. torchtitan: 57,914,449,920 with the 65 norms."""
    batch = Batch(4, 8192)
    assert flops_per_token("megatron", LLAMA_3_8B, batch) == 51_470_401_536
    assert flops_per_token("torchtitan", LLAMA_3_8B, batch) == 57_914_449_920


def test_llama_3_8b_packed_as_two_documents_per_sequence():
    batch = Batch(4, 8192, documents=(4096,) * 8)
    assert flops_per_token("megatron", LLAMA_3_8B, batch) == 48_249_176_064


def test_megatron_leaves_out_padding_and_megatron_full_counts_it():
    padded, full = Batch(1, 8192, documents=(6144,)), Batch(1, 6144)
    assert training_flops("megatron", LLAMA_3_8B, padded) == training_flops("megatron", LLAMA_3_8B, full)
    assert training_flops("exact", LLAMA_3_8B, padded) == training_flops("exact", LLAMA_3_8B, full)
    assert known(training_flops("megatron_full", LLAMA_3_8B, padded)) > known(
        training_flops("megatron_full", LLAMA_3_8B, full)
    )


def test_palm_540b_reaches_the_mfu_of_its_paper():
    """arXiv 2204.02311: 46.2 % MFU at 238.3 k tokens/s on 6144 TPU v4 of 275 TFLOP/s; 45.7 % without attention."""
    n = 540_350_000_000
    head_dim, ffn, width = 256, 4 * 18432, 18432
    shape = dense_decoder(
        layers=118,
        width=width,
        heads=48,
        kv_heads=1,
        head_dim=head_dim,
        ffn=ffn,
        gated=True,
        vocabulary=256000,
        tied=True,
    )
    assert abs(known(shape.parameters) - n) / n < 0.001
    peak = 6144 * 275e12
    with_attention = known(flops_per_token("palm", shape, Batch(2048, 2048))) + 6 * (n - known(shape.parameters))
    assert round(100 * 238_300 * with_attention / peak, 2) == 46.23
    assert round(100 * 238_300 * 6 * n / peak, 2) == 45.73
