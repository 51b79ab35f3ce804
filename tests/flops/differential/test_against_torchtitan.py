"""torchtitan equals torchtitan's own counter, run on Hugging Face models under its own module names."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from tests.flops.differential.originals import original  # noqa: E402 - after the skips
from tests.flops.differential.tiny_models import CASES, B, Case, T, model_of  # noqa: E402 - after the skips
from tests.flops.published import CONFIGS, config_of, shape_from_config  # noqa: E402 - after the skips
from trainmeter_core.flops import training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import Batch  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402

counter = original("torchtitan.models.utils")

NOT_DECODERS = ("bert", "t5", "t5 gated", "bart", "whisper", "vit", "mamba")
NAMES = {"mlp.experts": "moe.routed_experts", "mlp.gate.": "moe.router.", "mlp.router.": "moe.router."}
NAMES |= {"block_sparse_moe.experts": "moe.routed_experts", "block_sparse_moe.router": "moe.router"}
NAMES |= {"mlp.shared_expert": "moe.shared_experts", "embed_tokens": "tok_embeddings.embedding"}


class AsTorchtitan:
    """A model with its parameters under torchtitan's names, and its tables as its immediate children."""

    def __init__(self, model):
        self.model = model

    def parameters(self):
        return self.model.parameters()

    def children(self):
        return [module for module in self.model.modules() if isinstance(module, nn.Embedding)]

    def named_parameters(self):
        for name, parameter in self.model.named_parameters():
            for ours, theirs in NAMES.items():
                name = name.replace(ours, theirs)  # noqa: PLW2901 - one name, several rewrites
            yield name, parameter


def own_count(model, seq_len):
    """FLOPs per token by torchtitan's function for the model's kind."""
    config = model.config
    tied = bool(config.tie_word_embeddings)
    heads = config.num_attention_heads
    if getattr(config, "kv_lora_rank", None):
        head_dims = config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim
    else:
        head_dims = 2 * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    many = getattr(config, "num_local_experts", None) or getattr(config, "n_routed_experts", None)
    many = many or getattr(config, "num_experts", None)
    if not many:
        layers = config.num_hidden_layers
        return counter.get_dense_model_nparams_and_flops(AsTorchtitan(model), layers, heads, head_dims, seq_len, tied)
    moe = SimpleNamespace(router=SimpleNamespace(top_k=config.num_experts_per_tok), num_experts=many)
    layers = [SimpleNamespace(moe=moe, attention=True) for _ in range(config.num_hidden_layers)]
    described = SimpleNamespace(layers=layers, enable_weight_tying=tied)
    return counter.get_moe_model_nparams_and_flops(described, AsTorchtitan(model), heads, head_dims, seq_len)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_DECODERS])
def test_a_tiny_model(name, same):
    model = model_of(CASES[name])
    parameters, per_token = own_count(model, T)
    shape, _source = known(shape_of(json.loads(json.dumps(describe(model)))))
    assert shape.parameters == parameters
    same(name, "torchtitan", training_flops("torchtitan", shape, Batch(B, T)), B * T * per_token)


@pytest.mark.parametrize(
    "name", [n for n in CONFIGS if n.split("-")[0] not in ("bert", "t5", "vit", "whisper", "mamba")]
)
def test_a_published_config(name, same):
    numbers = config_of(name)
    model = model_of(Case(numbers.pop("model_type"), numbers))
    parameters, per_token = own_count(model, 4096)
    shape = shape_from_config(name)
    assert shape.parameters == parameters
    same(name, "torchtitan", training_flops("torchtitan", shape, Batch(2, 4096)), 2 * 4096 * per_token)
