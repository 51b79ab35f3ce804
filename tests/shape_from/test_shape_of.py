"""A description becomes the shape of the real model: the same parameters and the same FLOPs as the closed forms."""

from __future__ import annotations

import json

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from tests.shape_from.shape_models import GPT, GPTConfig, Llama, LlamaArgs, conv_net  # noqa: E402 - after the skips
from trainmeter_core.flops import all_training_flops, flops_per_token, training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import Batch  # noqa: E402
from trainmeter_core.readings import Absent  # noqa: E402
from trainmeter_core.shape_from import dense_decoder, shape_of  # noqa: E402

BATCH = Batch(2, 16)
TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MHA_TINY = {name: value for name, value in TINY.items() if name != "num_key_value_heads"}
GPT2_TINY = {
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Families whose weights are known from their config alone, each with what makes it differ from the others.
FAMILIES = {
    "gpt2": GPT2_TINY,
    "gpt2 untied": {**GPT2_TINY, "tie_word_embeddings": False},
    "gpt_bigcode": GPT2_TINY,
    "opt": {**MHA_TINY, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "bloom": {"vocab_size": 99, "hidden_size": 32, "n_layer": 3, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2},
    "gpt_neox": MHA_TINY,
    "gptj": {**GPT2_TINY, "rotary_dim": 4},
    "codegen": {**GPT2_TINY, "rotary_dim": 4},
    "phi": TINY,
    "llama": TINY,
    "llama with biases": {**TINY, "attention_bias": True, "mlp_bias": True},
    "llama with head_dim": {**TINY, "head_dim": 16},
    "mistral": {**TINY, "sliding_window": 8},
    "qwen2": TINY,
    "qwen3": {**TINY, "head_dim": 16},
    "gemma": {**TINY, "head_dim": 16},
    "gemma2": {**TINY, "head_dim": 16, "sliding_window": 8},
    "gemma3_text": {**TINY, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 7},
    "phi3": TINY,
    "starcoder2": TINY,
    "stablelm": TINY,
    "olmo": TINY,
    "olmo2": TINY,
    "granite": TINY,
    "smollm3": TINY,
    "cohere": TINY,
    "seed_oss": {**TINY, "head_dim": 16},
    "exaone4": {**TINY, "head_dim": 8},
    "helium": {**TINY, "head_dim": 8},
    "arcee": TINY,
    "ernie4_5": {**TINY, "head_dim": 16},
    "glm4": {**TINY, "head_dim": 16},
}


def hf_model(case):
    config = transformers.AutoConfig.for_model(case.split()[0], **FAMILIES[case])
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


def through_json(description):
    return json.loads(json.dumps(description))


def shape(model):
    found, source = known(shape_of(through_json(describe(model))))
    return found, source


@pytest.mark.parametrize("case", FAMILIES)
def test_a_hugging_face_model_counts_as_its_own_floating_point_ops(case):
    """hf equals 6 * tokens * num_parameters(exclude_embeddings=True) to the last integer."""
    model = hf_model(case)
    found, source = shape(model)
    assert source == "hf_config"
    assert found.parameters == model.num_parameters()
    assert training_flops("hf", found, BATCH) == 6 * BATCH.tokens * model.num_parameters(exclude_embeddings=True)


@pytest.mark.parametrize("case", FAMILIES)
def test_the_config_alone_gives_the_counts_of_the_model(case):
    model = hf_model(case)
    from_model, _ = shape(model)
    found = shape_of({"class": None, "config": through_json(model.config.to_dict()), "modules": []})
    assert not isinstance(found, Absent), found
    from_config, source = found
    assert source == "hf_config"
    assert from_config.parameters == model.num_parameters()
    assert all_training_flops(from_config, BATCH) == all_training_flops(from_model, BATCH)
    assert from_config.norm_bias_parameters == from_model.norm_bias_parameters


@pytest.mark.parametrize("case", FAMILIES)
def test_every_count_of_a_known_family_is_present(case):
    found, _ = shape(hf_model(case))
    assert [name for name, flops in all_training_flops(found, BATCH).items() if isinstance(flops, Absent)] == []


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_nanogpt_model_counts_as_the_closed_form(tied, bias):
    model = GPT(GPTConfig(bias=bias), tied=tied)
    closed = dense_decoder(
        layers=3,
        width=32,
        heads=4,
        ffn=128,
        vocabulary=96,
        positions=16,
        tied=tied,
        norms=(1 + bias) * 7 * 32,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
    )
    found, source = shape(model)
    assert source == "gpt_config"
    assert found.parameters == closed.parameters == sum(p.numel() for p in model.parameters())
    assert all_training_flops(found, BATCH) == all_training_flops(closed, BATCH)


def test_nanogpt_counts_as_its_own_estimate_mfu():
    """6 * (parameters - wpe) + 12 L H Q T per token."""
    model = GPT(GPTConfig())
    n = sum(p.numel() for p in model.parameters()) - model.transformer.wpe.weight.numel()
    assert flops_per_token("nanogpt", shape(model)[0], BATCH) == 6 * n + 12 * 3 * 4 * 8 * 16


def test_a_gpt_config_alone_gives_the_counts_of_the_model():
    model = GPT(GPTConfig(bias=True))
    description = describe(model)
    alone, source = known(shape_of({**description, "modules": []}))
    assert source == "gpt_config"
    assert all_training_flops(alone, BATCH) == all_training_flops(shape(model)[0], BATCH)


def test_a_llama_model_counts_as_the_closed_form_and_as_its_args_alone():
    model = Llama(LlamaArgs())
    closed = dense_decoder(layers=2, width=64, heads=8, kv_heads=2, ffn=176, gated=True, vocabulary=128, norms=5 * 64)
    found, source = shape(model)
    alone, source_alone = known(shape_of({**describe(model), "modules": []}))
    assert (source, source_alone) == ("llama_config", "llama_config")
    expected = all_training_flops(closed, BATCH)
    assert all_training_flops(found, BATCH) == expected
    assert all_training_flops(alone, BATCH) == expected


def test_without_a_config_heads_times_head_dim_is_read_from_the_q_projection():
    """Only the softmax needs the heads themselves, and only the exact mask needs to know whether it is causal."""
    with_config, _ = shape(Llama(LlamaArgs()))
    bare, source = shape(Llama(LlamaArgs(), bare=True))
    assert source == "modules"
    known, seen = all_training_flops(with_config, BATCH), all_training_flops(bare, BATCH)
    assert {name for name, flops in seen.items() if isinstance(flops, Absent)} == {"chinchilla", "exact"}
    assert {name: flops for name, flops in seen.items() if flops} == {
        name: flops for name, flops in known.items() if name not in ("chinchilla", "exact")
    }


def test_a_config_that_contradicts_the_modules_is_not_believed():
    """Someone cut two layers off: the weights say so, and the modules are the truth."""
    model = GPT(GPTConfig())
    model.transformer.h = model.transformer.h[:1]
    found, source = shape(model)
    assert source == "modules"
    assert sum(core.count for core in found.cores) == 1


def test_a_torch_transformer_encoder_is_read_from_its_attention_modules():
    layer = nn.TransformerEncoderLayer(32, 4, 64)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    found, source = shape(model)
    assert source == "modules"
    assert [(core.qk_width, core.heads, core.count) for core in found.cores] == [(32, 4, 3)]
    assert sum(m.weights for m in found.matmuls) == 3 * (4 * 32 * 32 + 2 * 32 * 64)
    linear = 6 * sum(m.weights for m in found.matmuls)
    assert flops_per_token("nanochat", found, BATCH) == linear + 12 * 3 * 32 * 16
    assert isinstance(training_flops("exact", found, BATCH), Absent)
    assert training_flops("megatron", found, BATCH) == Absent("no vocabulary in this model")


def test_a_conv_net_has_its_weights_and_says_that_its_feature_maps_are_not_seen():
    model = conv_net()
    model(torch.zeros(1, 3, 8, 8))
    found, source = shape(model)
    assert source == "modules"
    assert sum(m.weights for m in found.matmuls) == 8 * 27 + 8 * 2 * 9 + 288 * 10
    assert "feature map" in str(training_flops("exact", found, BATCH))
    assert training_flops("torchtitan", found, BATCH) == Absent("no attention in this model")


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_net_is_a_matmul_per_gate_from_input_and_state(kind, gates):
    model = nn.ModuleDict({"embed": nn.Embedding(50, 8), "rnn": kind(8, 16, num_layers=2, bidirectional=True)})
    found, _ = shape(model)
    weights = gates * 16 * 2 * ((8 + 16) + (32 + 16))
    assert sum(m.weights for m in found.matmuls) == weights
    assert training_flops("exact", found, BATCH) == 6 * weights * BATCH.tokens


def test_torch_s_own_encoder_decoder_has_two_streams():
    """Whether its decoder is masked is not visible, so there is no exact count; formulas of one stream do not fit."""
    found, source = shape(nn.Transformer(32, 4, 2, 3, 48))
    assert source == "modules"
    assert [(core.queries.name, core.keys.name, core.count) for core in found.cores] == [
        ("tokens", "tokens", 2),
        ("target", "target", 3),
        ("target", "tokens", 3),
    ]
    assert "causal" in str(training_flops("exact", found, Batch(2, 16, 8)))
    assert "several" in str(training_flops("torchtitan", found, Batch(2, 16, 8)))


def test_pictures_beside_the_text_leave_only_the_count_of_parameters():
    description = describe(GPT(GPTConfig()))
    config = {**description["config"], "model_type": "some_vlm", "vision_config": {"patch_size": 14}}
    found, _ = known(shape_of({**description, "config": config}))
    counts = all_training_flops(found, BATCH)
    assert counts["hf"] == 6 * BATCH.tokens * (known(found.parameters) - found.lookup_parameters)
    assert "pictures" in str(counts["torchtitan"])


def test_layers_that_share_weights_are_not_counted_once():
    config = transformers.AlbertConfig(**MHA_TINY, embedding_size=16)
    with torch.device("meta"):
        found, _ = shape(transformers.AlbertForMaskedLM(config))
    assert "share" in str(training_flops("exact", found, BATCH))


def test_experts_without_a_config_leave_out_what_depends_on_how_many_are_active():
    experts = nn.Module()
    experts.gate_up_proj = nn.Parameter(torch.zeros(4, 8, 6))
    model = nn.Module()
    model.experts = experts
    model.head = nn.Linear(6, 3)
    found, _ = shape(model)
    assert "experts" in str(training_flops("exact", found, BATCH))
    assert training_flops("hf", found, BATCH) == 6 * BATCH.tokens * (4 * 8 * 6 + 6 * 3 + 3)


def test_a_stack_of_weights_of_no_known_kind_is_a_gap():
    model = nn.Module()
    model.mixing = nn.Parameter(torch.zeros(4, 8, 6))
    found, _ = shape(model)
    assert "known kind" in str(training_flops("exact", found, BATCH))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_classifier_runs_once_per_sample_or_on_every_token_as_the_model_has_it(name):
    """BERT classifies its first vector; GPT-2 scores every token and takes the last."""
    numbers = MHA_TINY if name == "bert" else GPT2_TINY
    config = transformers.AutoConfig.for_model(name, **numbers)
    with torch.device("meta"):
        found, _ = shape(transformers.AutoModelForSequenceClassification.from_config(config))
    (classifier,) = [m for m in found.matmuls if m.outputs == 2]
    assert classifier.stream.name == ("samples" if name == "bert" else "tokens")


def test_a_config_for_another_head_is_not_read_as_a_language_model():
    config = transformers.LlamaConfig(**TINY).to_dict()
    absent = shape_of({"class": "LlamaForSequenceClassification", "config": config, "modules": None})
    assert "LlamaForSequenceClassification" in str(absent)


def test_a_config_that_lacks_a_number_says_which():
    assert "width" in str(shape_of({"class": None, "config": {"model_type": "llama"}, "modules": None}))
    assert "d_model" in str(shape_of({"class": None, "config": {"model_type": "t5"}, "modules": None}))


def test_nothing_known_is_absent_with_the_reason():
    assert isinstance(shape_of({"class": "X", "config": None, "modules": []}), Absent)
    unknown = shape_of({"class": "X", "config": {"model_type": "brand_new"}, "modules": []})
    assert "brand_new" in str(unknown)


def test_heads_in_a_config_do_not_make_attention_of_a_model_that_shows_none():
    """A recurrent model whose config has n_head for something else."""
    model = nn.ModuleDict({"wte": nn.Embedding(50, 8), "rnn": nn.LSTM(8, 8), "lm_head": nn.Linear(8, 50)})
    model.config = GPTConfig()
    found, _ = shape(model)
    assert "no attention is visible" in str(training_flops("torchtitan", found, BATCH))
