"""The weights of model families by their config alone, as data: which norms, biases, gates and tables each has."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Union

from trainmeter_core.model_shape import Component, Lookup, Matmul, ModelShape
from trainmeter_core.readings import Absent

from .blocks import assembled, attention, mlp
from .config_facts import Facts, facts, first

Flag = Union[bool, str]
"""True or False, or the name of the config attribute that says so."""


class Family(NamedTuple):
    """The weights of a family's layers beside its matrices.

    norm: 1 for a weight alone, 2 with a bias, 0 without either.  norms: of the model's width, in each layer.
    qk_norm: features that the q and k norms of a layer hold together: none, two heads', or the q and k widths'.
    positions: rows that a learned position table has beyond the config's number; None for no such table.
    """

    gated: Flag = True
    norm: int = 1
    norms: int = 2
    qkv_bias: Flag = False
    o_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    qk_norm: str = ""
    positions: int | None = None
    embedding_norm: bool = False
    tied: bool = False


_GPT2 = Family(
    gated=False, norm=2, qkv_bias=True, o_bias=True, mlp_bias=True, positions=0, tied=True
)  # nanoGPT with bias=True, GPT-2
FAMILIES: dict[str, Family] = {
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": _GPT2._replace(positions=2),
    "bloom": _GPT2._replace(positions=None, embedding_norm=True),
    "gpt_neox": Family(gated=False, norm=2, qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias=True),
    "gptj": Family(gated=False, norm=2, norms=1, mlp_bias=True, head_bias=True),
    "codegen": Family(gated=False, norm=2, norms=1, mlp_bias=True, head_bias=True),
    "phi": Family(gated=False, norm=2, norms=1, qkv_bias=True, o_bias=True, mlp_bias=True, head_bias=True),
    "llama": Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "mistral": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head"),
    "gemma": Family(qkv_bias="attention_bias", o_bias="attention_bias", tied=True),
    "gemma2": Family(qkv_bias="attention_bias", o_bias="attention_bias", norms=4, tied=True),
    "gemma3_text": Family(qkv_bias="attention_bias", o_bias="attention_bias", norms=4, qk_norm="head", tied=True),
    "phi3": Family(),
    "starcoder2": Family(gated=False, norm=2, qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tied=True),
    "stablelm": Family(norm=2, qkv_bias="use_qkv_bias"),
    "olmo": Family(norm=0, qkv_bias="attention_bias", o_bias="attention_bias"),
    "olmo2": Family(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="width"),
    "granite": Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "smollm3": Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", tied=True),
    "cohere": Family(norm=1, norms=1, qkv_bias="attention_bias", o_bias="attention_bias", tied=True),
    "seed_oss": Family(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "exaone4": Family(qk_norm="head"),
    "helium": Family(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "arcee": Family(gated=False, qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias"),
    "ernie4_5": Family(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tied=True),
    "glm4": Family(norms=4, qkv_bias="attention_bias"),
}
# The configs of training scripts, which bear no model_type.
NANOGPT = _GPT2._replace(qkv_bias="bias", o_bias="bias", mlp_bias="bias")
LLAMA = FAMILIES["llama"]


def shape_of_family(config: Mapping[str, Any], source: str) -> ModelShape | Absent:
    """The dense decoder that a config describes, for a family whose weights are known to the last one."""
    name = str(config.get("model_type") or "")
    family = {"gpt_config": NANOGPT, "llama_config": LLAMA}.get(source) or FAMILIES.get(name)
    if family is None:
        return Absent(f"the weights of model type {name!r} are not known from its config alone")
    known = facts(config)
    if isinstance(known, Absent):
        return known
    vocabulary = first(config, "vocabulary")
    if not vocabulary:
        return Absent("the config names no vocabulary")
    if source == "gpt_config" and ("bias" not in config or "n_query_groups" in config):
        return Absent("the biases and tables of this GPT config are not visible without the model")
    return _dense(config, family, known, vocabulary)


def _dense(config: Mapping[str, Any], family: Family, known: Facts, vocabulary: int) -> ModelShape | Absent:
    def flag(value: Flag) -> bool:
        return bool(config.get(value, False)) if isinstance(value, str) else value

    width, ffn = known.width, _ffn(config, known)
    if ffn is None:
        return Absent("the config names no width of the MLP")
    components: list[Component] = [Lookup("token", vocabulary, width)]
    if family.positions is not None:
        rows = first(config, "positions")
        if not rows:
            return Absent("the config names no length of the position table")
        components.append(Lookup("position", rows + family.positions, width))
    for window in known.windows:
        components += attention(
            width,
            known.heads,
            known.kv_heads,
            known.qk_head_dim,
            window=window,
            chunked=known.chunked,
            qkv_bias=flag(family.qkv_bias),
            o_bias=flag(family.o_bias),
        )
        components += mlp(width, ffn, gated=flag(family.gated), bias=flag(family.mlp_bias))
    tied = config.get("tie_word_embeddings")
    is_tied = family.tied if tied is None else bool(tied)
    components.append(Matmul("head.weight", width, vocabulary, tied=is_tied, bias=flag(family.head_bias)))
    norm = 1 + bool(config["bias"]) if family is NANOGPT and "bias" in config else family.norm
    features = width * (known.layers * family.norms + 1 + family.embedding_norm)
    qk = {
        "": 0,
        "head": 2 * known.qk_head_dim,
        "width": (known.heads + known.kv_heads) * known.qk_head_dim,
    }[family.qk_norm]
    norms = norm * (features + known.layers * qk)
    return assembled(components, norms=norms, width=width, layers=known.layers, family=known.family)


def _ffn(config: Mapping[str, Any], known: Facts) -> int | None:
    """The MLP's width; 4 d where GPT configs leave it out, and Llama's own rounding of 8/3 d where `dim` is given."""
    named = first(config, "ffn")
    if named:
        return named
    if "dim" in config:
        multiple = config.get("multiple_of")
        if not isinstance(multiple, int):
            return None
        hidden = int(2 * 4 * known.width / 3)
        factor = config.get("ffn_dim_multiplier")
        hidden = int(factor * hidden) if factor else hidden
        return -(-hidden // multiple) * multiple
    return 4 * known.width if "n_embd" in config or known.family == "bloom" else None
