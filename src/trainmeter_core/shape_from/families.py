"""The weights of decoder families by their config alone, as data: which norms, biases, gates and tables each has."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Union

from trainmeter_core.readings import Absent

from .config_facts import Facts, facts, first, first_of
from .entries import Entry, experts, linear, norm, other, table

Flag = Union[bool, str]
"""True or False, or the name of the config attribute that says so."""


class Mixture(NamedTuple):
    """The experts of a family; width, shared: config attributes of an expert's and the shared expert's width.

    shared_many: the attribute that counts shared experts of an expert's width.  shared_gate: a d x 1 gate for it.
    """

    width: str
    bias: bool = False
    shared: str = ""
    shared_many: str = ""
    shared_gate: bool = False


class Family(NamedTuple):
    """The weights of a family's layers beside its matrices.

    norm: 1 for a weight alone, 2 with a bias, 0 without either.  norms: of the model's width, in each layer.
    qk_norm: features that the q and k norms of a layer hold together: none, two heads', or the q and k widths'.
    positions: rows that a learned position table has beyond the config's number; None for no such table.
    sinks: one learned score per head.
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
    mixture: Mixture | None = None
    sinks: bool = False


_GPT2 = Family(gated=False, norm=2, qkv_bias=True, o_bias=True, mlp_bias=True, positions=0, tied=True)
_BIASED = Family(qkv_bias="attention_bias", o_bias="attention_bias")  # where the config asks for attention biases
_GPTJ = Family(gated=False, norm=2, norms=1, mlp_bias=True, head_bias=True)
_DEEPSEEK = Mixture("moe_intermediate_size", shared_many="n_shared_experts")
FAMILIES: dict[str, Family] = {
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": _GPT2._replace(positions=2),
    "bloom": _GPT2._replace(positions=None, embedding_norm=True),
    "gpt_neox": _BIASED._replace(gated=False, norm=2, mlp_bias=True),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "phi": _GPTJ._replace(qkv_bias=True, o_bias=True),
    "llama": _BIASED._replace(mlp_bias="mlp_bias"),
    "mistral": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": _BIASED._replace(qk_norm="head"),
    "gemma": _BIASED._replace(tied=True),
    "gemma2": _BIASED._replace(norms=4, tied=True),
    "gemma3_text": _BIASED._replace(norms=4, qk_norm="head", tied=True),
    "phi3": Family(),
    "starcoder2": Family(gated=False, norm=2, qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tied=True),
    "stablelm": Family(norm=2, qkv_bias="use_qkv_bias"),
    "olmo": _BIASED._replace(norm=0),
    "olmo2": _BIASED._replace(qk_norm="width"),
    "granite": _BIASED._replace(mlp_bias="mlp_bias"),
    "smollm3": _BIASED._replace(mlp_bias="mlp_bias", tied=True),
    "cohere": _BIASED._replace(norms=1, tied=True),
    "seed_oss": Family(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "exaone4": Family(qk_norm="head"),
    "helium": Family(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "arcee": _BIASED._replace(gated=False, mlp_bias="mlp_bias"),
    "ernie4_5": Family(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tied=True),
    "glm4": Family(norms=4, qkv_bias="attention_bias"),
    "mixtral": Family(mixture=Mixture("intermediate_size")),
    "olmoe": _BIASED._replace(qk_norm="width", mixture=Mixture("intermediate_size")),
    "granitemoe": _BIASED._replace(mixture=Mixture("intermediate_size")),
    "qwen2_moe": Family(
        qkv_bias=True,
        mixture=Mixture("moe_intermediate_size", shared="shared_expert_intermediate_size", shared_gate=True),
    ),
    "qwen3_moe": _BIASED._replace(qk_norm="head", mixture=Mixture("moe_intermediate_size")),
    "gpt_oss": _BIASED._replace(mixture=Mixture("intermediate_size", bias=True), sinks=True),
    "deepseek_v2": Family(qkv_bias="attention_bias", o_bias="attention_bias", mixture=_DEEPSEEK),
    "deepseek_v3": Family(qkv_bias="attention_bias", o_bias="attention_bias", mixture=_DEEPSEEK),
}
# The configs of training scripts, which bear no model_type.
NANOGPT = _GPT2._replace(qkv_bias="bias", o_bias="bias", mlp_bias="bias")
LLAMA = FAMILIES["llama"]
# Megatron-Core's GPT, told by inside.describe_megatron.
MEGATRON = Family(
    gated="gated_linear_unit", qkv_bias="qkv_bias", o_bias="add_bias_linear", mlp_bias="add_bias_linear",
    mixture=Mixture("moe_intermediate_size", shared="shared_expert_intermediate_size"),
)  # fmt: skip


def entries_of(config: Mapping[str, Any], source: str) -> list[Entry] | Absent:
    """The modules of the decoder that a config describes, for a family whose weights are known to the last one."""
    name = str(config.get("model_type") or "")
    written = {"gpt_config": NANOGPT, "llama_config": LLAMA, "megatron_config": MEGATRON}
    family = written.get(source) or FAMILIES.get(name)
    if family is MEGATRON and config.get("not_known"):
        return Absent(f"this model has {config['not_known']}, which its config alone does not tell")
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
    if family is NANOGPT:
        family = family._replace(norm=1 + bool(config["bias"]))
    elif family is MEGATRON:
        family = _of_megatron(config, family)
    entries = table("model.embed_tokens", vocabulary, known.width)
    if family.positions is not None:
        rows = first(config, "positions")
        if not rows:
            return Absent("the config names no length of the position table")
        entries += table("model.embed_positions", rows + family.positions, known.width)
    layers = _layers(config, family, known)
    if isinstance(layers, Absent):
        return layers
    tied = config.get("tie_word_embeddings")
    is_tied = family.tied if tied is None else bool(tied)
    head = linear("lm_head", vocabulary, known.width, bias=_flag(config, family.head_bias), tied=is_tied)
    final = norm("model.norm", known.width, 1 + family.embedding_norm, parts=family.norm)
    return [*entries, *layers, *final, *head]


def _of_megatron(config: Mapping[str, Any], family: Family) -> Family:
    mixture = family.mixture if config.get("num_experts") else None
    has_gate = bool(config.get("shared_expert_gate") and config.get("shared_expert_intermediate_size"))
    return family._replace(
        norm=1 + (config.get("normalization") == "LayerNorm"),
        qk_norm="head" if config.get("qk_layernorm") else "",
        positions=0 if config.get("max_position_embeddings") else None,
        mixture=mixture and mixture._replace(shared_gate=has_gate),
        sinks=config.get("softmax_type") == "learnable",
    )


def _flag(config: Mapping[str, Any], value: Flag) -> bool:
    return bool(config.get(value, False)) if isinstance(value, str) else value


def _layers(config: Mapping[str, Any], family: Family, known: Facts) -> list[Entry] | Absent:
    attention = _latent if first_of(config, "kv_lora_rank") else _grouped
    sparse = _sparse_layers(config, known) if family.mixture else 0
    entries = attention(config, family, known)
    entries += norm("layers.*.norm", known.width, known.layers * family.norms, parts=family.norm)
    if sparse < known.layers:
        ffn = _ffn(config, known)
        if ffn is None:
            return Absent("the config names no width of the MLP")
        gate, bias = _flag(config, family.gated), _flag(config, family.mlp_bias)
        entries += _mlp("layers.*.mlp", ffn, known.width, known.layers - sparse, gated=gate, bias=bias)
    if family.mixture and sparse:
        mixture = _mixture(config, family.mixture, known, sparse)
        if isinstance(mixture, Absent):
            return mixture
        entries += mixture
    return entries


def _mlp(names: str, ffn: int, width: int, count: int, *, gated: bool, bias: bool) -> list[Entry]:
    return [
        *linear(f"{names}.gate_proj", ffn, width, count if gated else 0, bias=bias),
        *linear(f"{names}.up_proj", ffn, width, count, bias=bias),
        *linear(f"{names}.down_proj", width, ffn, count, bias=bias),
    ]


def _grouped(config: Mapping[str, Any], family: Family, known: Facts) -> list[Entry]:
    width, layers, names = known.width, known.layers, "layers.*.self_attn"
    q, kv = known.heads * known.qk_head_dim, known.kv_heads * known.qk_head_dim
    bias = _flag(config, family.qkv_bias)
    features = {"": (), "head": (known.qk_head_dim, known.qk_head_dim), "width": (q, kv)}[family.qk_norm]
    return [
        *linear(f"{names}.q_proj", q, width, layers, bias=bias),
        *linear(f"{names}.k_proj", kv, width, layers, bias=bias),
        *linear(f"{names}.v_proj", kv, width, layers, bias=bias),
        *linear(f"{names}.o_proj", width, q, layers, bias=_flag(config, family.o_bias)),
        *(entry for n in features for entry in norm(f"{names}.qk_norm", n, layers, parts=family.norm)),
        *other(f"{names}.sinks", (known.heads,), layers if family.sinks else 0),
    ]


def _latent(config: Mapping[str, Any], family: Family, known: Facts) -> list[Entry]:
    """Multi-head latent attention; only the down projections and the output may bear a bias."""
    width, layers, names = known.width, known.layers, "layers.*.self_attn"
    latent, q_latent = first_of(config, "kv_lora_rank") or 0, first_of(config, "q_lora_rank") or 0
    rope = first_of(config, "qk_rope_head_dim") or 0
    q, v = known.heads * known.qk_head_dim, known.heads * known.v_head_dim
    bias = _flag(config, family.qkv_bias)
    return [
        *linear(f"{names}.q_proj", q, width, 0 if q_latent else layers),
        *linear(f"{names}.q_a_proj", q_latent, width, layers if q_latent else 0, bias=bias),
        *norm(f"{names}.q_a_layernorm", q_latent, layers if q_latent else 0),
        *linear(f"{names}.q_b_proj", q, q_latent, layers if q_latent else 0),
        *linear(f"{names}.kv_a_proj_with_mqa", latent + rope, width, layers, bias=bias),
        *norm(f"{names}.kv_a_layernorm", latent, layers),
        *linear(f"{names}.kv_b_proj", q - known.heads * rope + v, latent, layers),
        *linear(f"{names}.o_proj", width, v, layers, bias=_flag(config, family.o_bias)),
    ]


def _mixture(config: Mapping[str, Any], mixture: Mixture, known: Facts, count: int) -> list[Entry] | Absent:
    many, expert, width = first(config, "experts"), first_of(config, mixture.width), known.width
    if not many or not expert:
        return Absent("the config names no number or width of experts")
    names = "layers.*.mlp"
    shared = first_of(config, mixture.shared) or expert * (first_of(config, mixture.shared_many) or 0)
    return [
        *linear(f"{names}.gate", many, width, count, bias=mixture.bias),
        *experts(f"{names}.experts.gate_up_proj", many, 2 * expert, width, count, bias=mixture.bias),
        *experts(f"{names}.experts.down_proj", many, width, expert, count, bias=mixture.bias),
        *(_mlp(f"{names}.shared_experts", shared, width, count, gated=True, bias=False) if shared else ()),
        *linear(f"{names}.shared_expert_gate", 1, width, count if mixture.shared_gate else 0),
    ]


def _sparse_layers(config: Mapping[str, Any], known: Facts) -> int:
    """How many layers hold experts: from a first dense run, a list of dense layers, or one in every so many."""
    dense_first = first_of(config, "first_k_dense_replace") or 0
    dense: tuple[int, ...] = tuple(config.get("mlp_only_layers") or ())
    step = first_of(config, "decoder_sparse_step") or 1
    return sum(layer >= dense_first and layer not in dense and (layer + 1) % step == 0 for layer in range(known.layers))


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
