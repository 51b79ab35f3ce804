"""What a model's config says about its attention: layers, heads, widths, windows; attribute names as data."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from trainmeter_core.readings import Absent

# First name present wins. Sources: the configs of transformers 5.24.0, nanoGPT, minGPT, nanochat, litgpt, torchtitan.
ALIASES: dict[str, tuple[str, ...]] = {
    "width": ("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "word_embed_proj_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": (
        "num_key_value_heads",
        "n_kv_head",
        "n_kv_heads",
        "num_kv_heads",
        "n_query_groups",
        "num_query_groups",
    ),
    "head_dim": ("head_dim", "head_size", "kv_channels"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff", "hidden_dim"),
    "vocabulary": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "positions": ("n_positions", "max_position_embeddings", "block_size"),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "n_expert"),
    "active": ("num_experts_per_tok", "moe_topk", "moe_k", "n_expert_per_token", "experts_per_token", "top_k"),
    "window": ("sliding_window", "sliding_window_size", "attention_chunk_size", "local_attention"),
}
GPT_STYLE = ("n_layer", "n_head", "n_embd")
LLAMA_STYLE = ("dim", "n_layers", "n_heads")
# One sliding layer in so many, by the order in which layers repeat: the older configs that bear no layer_types.
LAYER_PATTERNS: dict[str, tuple[str, ...]] = {
    "gemma2": ("sliding_attention", "full_attention"),
    "gemma3_text": ("sliding_attention",) * 5 + ("full_attention",),
    "gpt_oss": ("sliding_attention", "full_attention"),
    "mistral": ("sliding_attention",),
    "mixtral": ("sliding_attention",),
    "phi3": ("sliding_attention",),
    "starcoder2": ("sliding_attention",),
}

# Words in the kind of a layer that has no softmax attention.
NO_ATTENTION = ("linear", "recurrent", "mamba", "conv")


class Facts(NamedTuple):
    """A stack of attention layers as its config tells it; widths are of one head, windows one per layer."""

    family: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    qk_head_dim: int
    v_head_dim: int
    windows: tuple[int | None, ...]
    chunked: bool
    attends: tuple[bool, ...]


def first(config: Mapping[str, Any], what: str) -> int | None:
    """The value under the first alias of `what` that holds an integer, or None."""
    for name in ALIASES[what]:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def source_of(config: Mapping[str, Any]) -> str:
    """Which kind of config this is: gpt_config, llama_config, megatron_config or hf_config; empty for none of them."""
    if all(isinstance(config.get(name), int) for name in GPT_STYLE) and (
        "block_size" in config or "sequence_len" in config
    ):
        return "gpt_config"
    if config.get("model_type") == "megatron_gpt":
        return "megatron_config"
    if isinstance(config.get("model_type"), str) and config["model_type"]:
        return "hf_config"
    if all(isinstance(config.get(name), int) for name in GPT_STYLE):
        return "gpt_config"
    if all(isinstance(config.get(name), int) for name in LLAMA_STYLE):
        return "llama_config"
    return ""


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The config that describes the language model: a nested one, or this one if it has layers; else None."""
    nested = config.get("text_config") or config.get("llm_config")
    if isinstance(nested, Mapping):
        return nested
    return config if first(config, "layers") else None


def facts(config: Mapping[str, Any]) -> Facts | Absent:
    """The attention layers of a config, or which of its numbers is missing."""
    width, layers, heads = first(config, "width"), first(config, "layers"), first(config, "heads")
    if not width or not layers or not heads:
        what = "width" if not width else "layers" if not layers else "heads"
        return Absent(f"the config names no {what} ({', '.join(ALIASES[what])})")
    kv_heads = first(config, "kv_heads") or heads
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        kv_heads = 1
    head_dim = first(config, "head_dim") or width // heads
    qk, v = head_dim, head_dim
    if first_of(config, "kv_lora_rank"):
        qk = (first_of(config, "qk_nope_head_dim") or 0) + (first_of(config, "qk_rope_head_dim") or 0)
        v = first_of(config, "v_head_dim") or qk
    kinds = layer_kinds(config, layers)
    window = first(config, "window")
    if config.get("use_sliding_window") is False or (window or 0) < 1:
        window = None
    return Facts(
        str(config.get("model_type") or ""),
        width,
        layers,
        heads,
        kv_heads,
        qk,
        v,
        _gpt_windows(config, layers) or tuple(window if _is_local(kind) else None for kind in kinds),
        "chunked_attention" in kinds,
        tuple(not any(word in kind for word in NO_ATTENTION) for kind in kinds),
    )


def first_of(config: Mapping[str, Any], name: str) -> int | None:
    """An integer attribute of the config, or None."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def layer_kinds(config: Mapping[str, Any], layers: int) -> list[str]:
    """The kind of each layer, from `layer_types`, or from the pattern that the model_type is known by."""
    kinds = config.get("layer_types")
    if isinstance(kinds, (list, tuple)) and len(kinds) == layers:
        return [str(kind) for kind in kinds]
    pattern = LAYER_PATTERNS.get(str(config.get("model_type")), ("full_attention",))
    every = first_of(config, "sliding_window_pattern")
    if every and "sliding_attention" in pattern:
        pattern = ("sliding_attention",) * (every - 1) + ("full_attention",)
    return [pattern[layer % len(pattern)] for layer in range(layers)]


def _is_local(kind: str) -> bool:
    return kind in ("sliding_attention", "chunked_attention", "local_attention", "sliding")


def _gpt_windows(config: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Nanochat's pattern string: L sees the sequence, S a quarter of it rounded up to 128 keys; the last layer is L."""
    pattern, length = config.get("window_pattern"), first_of(config, "sequence_len")
    if not isinstance(pattern, str) or not pattern or not length:
        return ()
    short = -(-length // 4 // 128) * 128
    letters = [pattern.upper()[layer % len(pattern)] for layer in range(layers - 1)]
    return (*(short if letter == "S" else None for letter in letters), None)
