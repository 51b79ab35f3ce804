"""Each convention equals what its original returned when it was run; the values are stored with their source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flops.published import CONFIGS, PARAMETERS, config_of, shape_from_config
from tests.known import known
from trainmeter_core.flops import explain, flops_per_token, training_flops
from trainmeter_core.flops.executed import executed_flops
from trainmeter_core.model_shape import AttentionCore, Batch
from trainmeter_core.readings import Absent
from trainmeter_core.shape_from import shape_of
from trainmeter_core.shape_from.blocks import attention, merged, mlp, mtp_layer

HERE = Path(__file__).parent
MEGATRON = json.loads((HERE / "executed_megatron.json").read_text())["flops"]
NANOCHAT = json.loads((HERE / "executed_nanochat.json").read_text())["models"]
PACKED = "packed 3000+1000 and 4096"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_has_the_parameters_of_its_checkpoint(name):
    assert shape_from_config(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", MEGATRON)
@pytest.mark.parametrize("case", ["1024", "4096", PACKED])
def test_megatron(name, case, same):
    """Dense, grouped, latent attention, mixtures with shared experts and dense layers; packed documents."""
    batch = Batch(2, 4096, documents=(3000, 1000, 4096)) if case == PACKED else Batch(2, int(case))
    same(name, "Megatron-LM", training_flops("megatron", shape_from_config(name), batch), MEGATRON[name][case])


@pytest.mark.parametrize(("name", "many", "executed"), [("llama-3-8b", 2, 473_289_424_109_568)])
def test_megatron_with_multi_token_prediction(name, many, executed):
    """--mtp-num-layers 2: two more layers, each with its projection, its norms and the logits again."""
    shape = shape_from_config(name)
    block = [*attention(4096, 32, 8, 128), *mlp(4096, 14336, gated=True)]
    layers = [part for _ in range(many) for part in mtp_layer(4096, 128256, block)]
    with_mtp = replace(shape, components=merged([*shape.components, *layers]))
    assert training_flops("megatron", with_mtp, Batch(2, 4096)) == executed


@pytest.mark.parametrize("name", NANOCHAT)
def test_nanochat(name, same):
    """Window patterns, grouped heads, value embeddings; read from descriptions of nanochat's own modules."""
    original = NANOCHAT[name]
    shape, source = known(shape_of(original["description"]))
    length = original["description"]["config"]["sequence_len"]
    assert source == "gpt_config"
    found = flops_per_token("nanochat", shape, Batch(2, length))
    same(f"nanochat {name}", "nanochat", found, original["flops_per_token"])


def test_vit_l_counts_pixels_under_hf_as_a_public_report_found():
    """273,934,171,766,784 FLOPs per image were reported, a rounded mean; the patches need 730 times fewer."""
    config = {**config_of("vit-large-16"), "num_labels": 2}
    two_labels, _ = known(shape_of({"class": None, "config": config, "modules": None}))
    counted = known(training_flops("hf", two_labels, Batch(1, 1)))
    assert counted == 6 * 3 * 224 * 224 * known(two_labels.parameters)
    assert counted == pytest.approx(273_934_171_766_784, rel=1e-7)
    assert 700 < counted / known(training_flops("exact", two_labels, Batch(1, 1))) < 764


def test_the_head_costs_the_same_tied_or_not():
    """A tied head is the same matmul: only counts of parameters see a difference."""
    untied = shape_from_config("llama-3-8b")
    tied_head = tuple(
        replace(part, tied=True) if getattr(part, "part", "") == "head" else part for part in untied.components
    )
    tied = replace(untied, components=tied_head, parameters=untied.parameters - 128256 * 4096)
    batch = Batch(1, 128)
    for name in ("megatron", "nanochat", "kaplan", "chinchilla", "exact", "torchtitan"):
        assert training_flops(name, tied, batch) == training_flops(name, untied, batch), name
    more = known(training_flops("hf", untied, batch)) - known(training_flops("hf", tied, batch))
    assert more == 6 * 128 * 128256 * 4096


def test_qwen3_4b_uses_heads_times_head_dim_and_not_the_width():
    """d 2560, 32 heads of 128: the attention is over 4096, 1.6 times more than over d."""
    lines = known(explain("torchtitan", shape_from_config("qwen3-4b"), Batch(1, 4096)))
    terms = {line.term: line.flops for line in lines}
    assert terms["attention core"] == 12 * 36 * 4096 * 4096 * 4096


def test_qwen3_30b_a3b_counts_active_experts_at_8192_tokens():
    """A public fix reports 37.58 GFLOPs per token, where all experts would be 192.9."""
    flops = known(flops_per_token("torchtitan", shape_from_config("qwen3-30b-a3b"), Batch(1, 8192)))
    assert round(flops / 1e9, 2) == 37.58


def test_an_encoder_decoder_has_each_side_on_its_own_tokens():
    shape, batch = shape_from_config("t5-base"), Batch(2, 512, 114)
    d, ff, layers = 768, 3072, 12
    source, target = 2 * 512, 2 * 114
    encoder = layers * (4 * d * d + 2 * d * ff)
    decoder = layers * (6 * d * d + 2 * d * ff) + 32128 * d  # self-attention, cross q and o, MLP; the head
    cross = layers * 2 * d * d  # cross k and v
    cores = 2 * d * layers * (2 * 512 * 512 + 2 * (114 * 115 // 2) + 2 * 512 * 114)
    expected = 6 * (source * (encoder + cross) + target * decoder + cores)
    assert training_flops("exact", shape, batch) == expected
    for name in ("megatron", "torchtitan", "nanochat", "palm", "chinchilla"):
        assert isinstance(training_flops(name, shape, batch), Absent)


def test_an_encoder_decoder_without_a_target_length_is_absent():
    why = training_flops("exact", shape_from_config("t5-base"), Batch(2, 512))
    assert why == Absent("the number of positions of target is not known")


def test_gemma_3_sees_512_keys_in_five_of_six_layers():
    cores = [part for part in shape_from_config("gemma-3-1b").components if isinstance(part, AttentionCore)]
    assert [(core.window, core.count) for core in cores] == [(512, 22), (None, 4)]


def test_full_recomputation_runs_the_forward_pass_again():
    shape, batch = shape_from_config("llama-3-8b"), Batch(1, 4096)
    model = known(training_flops("exact", shape, batch))
    assert executed_flops(shape, batch, "none") == model
    assert 3 * known(executed_flops(shape, batch, "full")) == 4 * model
    core = sum(term.flops for term in known(explain("exact", shape, batch)) if term.term == "attention core")
    assert known(executed_flops(shape, batch, "attention")) - model == core // 3
