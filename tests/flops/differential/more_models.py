"""Tiny models of more families that are trained today, as `tiny_models` has them."""

from __future__ import annotations

from tests.flops.differential.tiny_models import _BASE, _GQA, _MLA, _WIDE, Case

_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
}
_MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}
_ENCODER = {**_BASE, "embedding_size": 32}

MORE: dict[str, Case] = {
    "olmo3": Case("olmo3", {**_GQA, "sliding_window": 8, "num_hidden_layers": 4}),
    "cohere2": Case("cohere2", {**_GQA, "sliding_window": 8, "num_hidden_layers": 4}),
    "nemotron": Case("nemotron", _GQA),
    "ministral": Case("ministral", {**_WIDE, "sliding_window": 8}),
    "hunyuan_v1_dense": Case("hunyuan_v1_dense", _WIDE),
    "apertus": Case("apertus", _GQA),
    "phimoe": Case("phimoe", {**_GQA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "glm4_moe": Case(
        "glm4_moe", {**_WIDE, **_MOE, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
                     "n_group": 1, "topk_group": 1}
    ),
    "minimax_m2": Case("minimax_m2", {**_WIDE, "num_local_experts": 8, "num_experts_per_tok": 2, "rotary_dim": 8}),
    "granitemoeshared": Case(
        "granitemoeshared", {**_GQA, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 40}
    ),
    "ernie4_5_moe": Case(
        "ernie4_5_moe", {**_GQA, "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 24,
                         "moe_num_shared_experts": 1, "moe_layer_start_index": 1}
    ),
    "kimi k2, as deepseek_v3": Case("deepseek_v3", {**_MLA, "n_group": 1, "topk_group": 1, "n_shared_experts": 1}),
    "modernbert-decoder": Case("modernbert-decoder", {**_BASE, "local_attention": 8}),
    "mpt": Case("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 3, "vocab_size": 99, "max_seq_len": 64}),
    "modernbert": Case("modernbert", {**_BASE, "local_attention": 8}, "MaskedLM"),
    "roberta": Case("roberta", _BASE, "MaskedLM"),
    "electra": Case("electra", {**_ENCODER, "embedding_size": 16}, "MaskedLM"),
    "distilbert": Case("distilbert", {"vocab_size": 99, "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4}, "MaskedLM"),
    "eurobert": Case("eurobert", _GQA, "MaskedLM"),
    "nomic_bert": Case("nomic_bert", _BASE, "MaskedLM"),
    "esm": Case("esm", {**_BASE, "mask_token_id": 3}, "MaskedLM"),
    "xlm": Case("xlm", {"vocab_size": 99, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "pad_index": 0}, "MaskedLM"),
    "layoutlm": Case("layoutlm", _BASE, "MaskedLM"),
    "mt5": Case("mt5", {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                        "decoder_start_token_id": 0}, "Seq2SeqLM", "pairs"),
    "marian": Case("marian", {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3,
                              "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
                              "decoder_ffn_dim": 40, "pad_token_id": 0, "decoder_start_token_id": 1,
                              "max_position_embeddings": 64}, "Seq2SeqLM", "pairs"),
    "dinov2": Case("dinov2", {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "mlp_ratio": 2,
                              "image_size": 32, "patch_size": 8}, "ImageClassification", "image"),
}  # fmt: skip

# Layers that are recurrences: their linear layers and their attention layers, each with the number of the latter.
HYBRID: dict[str, tuple[Case, int]] = {
    "mamba2": (
        Case("mamba2", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8,
                        "head_dim": 8, "n_groups": 1, "chunk_size": 8}), 0
    ),
    "falcon_mamba": (Case("falcon_mamba", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}), 0),
    "bamba": (Case("bamba", {**_GQA, **_MAMBA2, "attn_layer_indices": [1]}), 1),
    "falcon_h1": (Case("falcon_h1", {**_WIDE, **_MAMBA2, "mamba_d_ssm": 64}), 3),
    "granitemoehybrid": (
        Case("granitemoehybrid", {**_GQA, **_MAMBA2, "num_local_experts": 4, "num_experts_per_tok": 2,
                                  "shared_intermediate_size": 40, "layer_types": ["mamba", "attention", "mamba"]}), 1
    ),
    "jamba": (
        Case("jamba", {**_GQA, "num_hidden_layers": 4, "attn_layer_offset": 1, "attn_layer_period": 2, "num_experts": 4,
                       "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
                       "mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False}), 2
    ),
    "nemotron_h": (
        Case("nemotron_h", {**_WIDE, "hybrid_override_pattern": "M-*M", "num_hidden_layers": 4, "mamba_num_heads": 8,
                            "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 1, "chunk_size": 8,
                            "use_mamba_kernels": False}), 1
    ),
    "qwen3_next": (Case("qwen3_next", {**_WIDE, **_LINEAR, **_MOE, "num_experts": 8, "shared_expert_intermediate_size": 40}), 1),
    "qwen3_5": (Case("qwen3_5_text", {**_WIDE, **_LINEAR}), 1),
    "olmo_hybrid": (Case("olmo_hybrid", {**_GQA, **_LINEAR}), 1),
    "lfm2": (Case("lfm2", {**_GQA, "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3}), 1),
}  # fmt: skip

# Families without an exact count, and what the reason says.
ABSENT: dict[str, tuple[Case, str]] = {
    "albert": (Case("albert", {**_BASE, "embedding_size": 16}, "MaskedLM"), "share their weights"),
    "xlnet": (Case("xlnet", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}), "positions beside"),
    "minimax": (Case("minimax", {**_WIDE, "num_local_experts": 4, "num_experts_per_tok": 2}), "linear attention"),
    "recurrent_gemma": (
        Case("recurrent_gemma", {**_BASE, "lru_width": 32, "attention_window_size": 8}), "rg_lru"
    ),
    "gemma3n": (
        Case("gemma3n_text", {**_WIDE, "vocab_size_per_layer_input": 99, "hidden_size_per_layer_input": 8,
                              "num_kv_shared_layers": 0, "laurel_rank": 4, "intermediate_size": [48, 48, 48]}),
        "several streams",
    ),
    "diffllama": (Case("diffllama", _GQA), "differential"),
    "deberta-v2": (Case("deberta-v2", {**_BASE, "relative_attention": True}, "MaskedLM"), "relative positions"),
    "longformer": (Case("longformer", {**_BASE, "attention_window": 8}, "MaskedLM"), "sparse"),
}  # fmt: skip
