"""A GPT of Megatron-Core by its config: of most weights a rank's own modules hold a part, and they are not torch's.

The whole model is told in the names that configs of transformers have. What it has that is not told this way is named
under `not_known`, and then nothing is computed from it.
"""

from __future__ import annotations

from typing import Any

from .describe_config import attribute

MODEL_TYPE = "megatron_gpt"

_SAME = ("hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "ffn_hidden_size", "qk_layernorm",
         "gated_linear_unit", "add_bias_linear", "normalization", "softmax_type")  # fmt: skip
_MIXTURE = {
    "num_experts": "num_moe_experts",
    "num_experts_per_tok": "moe_router_topk",
    "moe_intermediate_size": "moe_ffn_hidden_size",
    "shared_expert_intermediate_size": "moe_shared_expert_intermediate_size",
    "shared_expert_gate": "moe_shared_expert_gate",
}
_LATENT = {
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_nope_head_dim": "qk_head_dim",
    "qk_rope_head_dim": "qk_pos_emb_head_dim",
    "v_head_dim": "v_head_dim",
}
_NOT_KNOWN = {
    "mtp_num_layers": "layers that predict several tokens",
    "experimental_attention_variant": "an attention of another kind",
    "linear_attention_freq": "linear attention",
    "attention_output_gate": "a gate of the attention's output",
    "moe_latent_size": "experts of a narrower input",
    "heterogeneous_block_specs": "layers that differ from each other",
}
"""Settings of a TransformerConfig that change the weights in a way that is not told here, and what each stands for."""


def megatron_config(model: Any) -> dict[str, Any] | None:
    """The config of a whole `GPTModel` of megatron.core, whatever part of it is here; None for another model."""
    kind, config = type(model), attribute(model, "config")
    if kind.__name__ != "GPTModel" or not kind.__module__.startswith("megatron.core.") or config is None:
        return None
    layers = attribute(config, "num_layers")
    if not isinstance(layers, int):
        return None
    told: dict[str, Any] = {"model_type": MODEL_TYPE, "num_hidden_layers": layers}
    told.update({name: attribute(config, name) for name in _SAME})
    told["qkv_bias"] = bool(attribute(config, "add_bias_linear") or attribute(config, "add_qkv_bias"))
    told["vocab_size"] = attribute(model, "vocab_size")
    told["tie_word_embeddings"] = bool(attribute(model, "share_embeddings_and_output_weights"))
    if attribute(model, "position_embedding_type") == "learned_absolute":
        told["max_position_embeddings"] = attribute(model, "max_sequence_length")
    if attribute(config, "num_moe_experts"):
        told.update({name: attribute(config, theirs) for name, theirs in _MIXTURE.items()})
        told["mlp_only_layers"] = [layer for layer in range(layers) if not _has_experts(config, layer)]
    if attribute(config, "multi_latent_attention"):
        told.update({name: attribute(config, theirs) for name, theirs in _LATENT.items()})
    window = attribute(config, "window_size")
    if isinstance(window, (list, tuple)) and window and isinstance(window[0], int):
        told["sliding_window"] = int(window[0]) + 1  # keys to the left, and the token's own
        told["layer_types"] = [_kind_of(config, layer) for layer in range(layers)]
    told["not_known"] = _not_known(model, config)
    return told


def _has_experts(config: Any, layer: int) -> bool:
    every = attribute(config, "moe_layer_freq")
    if isinstance(every, (list, tuple)):
        return layer < len(every) and bool(every[layer])
    return not isinstance(every, int) or layer % (every or 1) == 0


def _kind_of(config: Any, layer: int) -> str:
    skips = attribute(config, "window_attn_skip_freq")
    if isinstance(skips, (list, tuple)):
        return "sliding_attention" if layer < len(skips) and skips[layer] else "full_attention"
    every = skips if isinstance(skips, int) else 0
    return "full_attention" if every and (layer + 1) % every == 0 else "sliding_attention"


def _not_known(model: Any, config: Any) -> str:
    """What the model has that its config does not tell here; empty for nothing."""
    found = [what for name, what in _NOT_KNOWN.items() if attribute(config, name)]
    if attribute(config, "num_moe_experts") and not attribute(config, "gated_linear_unit"):
        found.append("experts without a gate")
    if attribute(config, "num_moe_experts") and attribute(config, "add_bias_linear"):
        found.append("experts with biases")
    latent = attribute(config, "multi_latent_attention")
    if latent and not (attribute(config, "qk_layernorm") and attribute(config, "normalization") == "RMSNorm"):
        found.append("latent attention without the usual norms")
    if latent and (attribute(config, "add_bias_linear") or attribute(config, "add_qkv_bias")):
        found.append("latent attention with biases")
    if any(not parameter.requires_grad for parameter in model.parameters()):
        found.append("weights that are not trained")
    return ", ".join(found)
