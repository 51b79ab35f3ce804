"""More families against torch's FlopCounterMode on a real pass: exact equals it, or says why there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.flops.differential.more_models import ABSENT, HYBRID, MORE  # noqa: E402 - after the skips
from tests.flops.differential.test_against_flop_counter import counted, without_mask  # noqa: E402
from tests.flops.differential.tiny_models import TARGET_LEN, B, Case, T, inputs_of, model_of  # noqa: E402
from trainmeter_core.flops import training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import Batch  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402


def eager(case):
    """On the CPU, with attention and experts as matmuls, where the family has other ways."""
    mixture = {"experts_implementation": "eager"} if "experts" in str(case.numbers) else {}
    model = model_of(case, "cpu", attn_implementation="eager", **mixture)
    model.config.use_cache = False
    return model


def shaped(model):
    shape, _source = known(shape_of(json.loads(json.dumps(describe(model)))))
    return shape


def batch_of(case):
    return {"pairs": Batch(B, T, TARGET_LEN), "image": Batch(B, 1)}.get(case.inputs, Batch(B, T))


@pytest.mark.parametrize("name", MORE)
def test_a_family(name, same):
    case = MORE[name]
    model = eager(case)
    flops = counted(model, inputs_of(case, model.config, "cpu")).get_total_flops()
    shape = shaped(model)
    same(name, "FlopCounterMode", training_flops("exact", without_mask(shape), batch_of(case)), flops)
    assert training_flops("exact", shape, batch_of(case)) <= flops


@pytest.mark.parametrize("name", HYBRID)
def test_a_family_with_recurrences(name, same):
    """Its linear layers; the counter sees a recurrence in whichever products its reference code is written."""
    case, attentions = HYBRID[name]
    model = eager(case)
    per_op = counted(model, inputs_of(case, model.config, "cpu")).get_flop_counts()["Global"]
    linears = sum(flops for op, flops in per_op.items() if str(op) in ("aten.mm", "aten.addmm"))
    shape = shaped(model)
    parts = tuple(m for m in shape.matmuls if not m.role.endswith("conv"))
    ours = training_flops("exact", replace(shape, components=parts), Batch(B, T))
    same(name, "FlopCounterMode, linear layers", ours, linears)
    assert sum(core.count for core in shape.cores) == attentions
    assert isinstance(training_flops("exact", shape, Batch(B, T)), int)
    assert name == "lfm2" or shape.scans


def test_llama_4_counts_the_expert_that_is_needed(same):
    """Its reference code multiplies every token with every expert; with all of them taken for active they are equal."""
    numbers = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 40, "attention_chunk_size": 8}
    case = Case("llama4_text", {**MORE["glm4_moe"].numbers, **numbers, "interleave_moe_layer_step": 2})
    model = eager(case)
    flops = counted(model, inputs_of(case, model.config, "cpu")).get_total_flops()
    shape = without_mask(shaped(model))
    parts = (replace(c, active=c.experts) if getattr(c, "part", "") == "experts" else c for c in shape.components)
    every = replace(shape, components=tuple(parts))
    same("llama4, every expert", "FlopCounterMode", training_flops("exact", every, Batch(B, T)), flops)
    assert training_flops("exact", shape, Batch(B, T)) < flops


@pytest.mark.parametrize("name", ABSENT)
def test_a_family_whose_count_is_not_known_says_why(name):
    case, why = ABSENT[name]
    model = model_of(case)
    assert why in str(training_flops("exact", shaped(model), Batch(B, T)))
    assert training_flops("hf", shaped(model), Batch(B, T)), "a count of parameters still holds"


def test_a_modernbert_looks_at_half_its_window_to_each_side():
    shape = shaped(model_of(MORE["modernbert"]))
    assert [(core.window, core.causal, core.count) for core in shape.cores] == [(None, False, 1), (8, False, 2)]


@pytest.mark.parametrize("is_decoder", [False, True])
def test_an_encoder_is_causal_only_as_a_decoder(is_decoder):
    config = transformers.BertConfig(**{**MORE["roberta"].numbers, "is_decoder": is_decoder})
    with torch.device("meta"):
        shape = shaped(transformers.BertLMHeadModel(config))
    assert {core.causal for core in shape.cores} == {is_decoder}
