"""Tiny Hugging Face models of many architectures, each with the batch it is fed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import transformers

T, B, TARGET_LEN = 16, 2, 6
_BASE = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GQA = {**_BASE, "num_key_value_heads": 2}
_WIDE = {**_GQA, "head_dim": 16}
_GPT2 = {
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MLA = {
    **_BASE,
    "num_key_value_heads": 4,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
_BART = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_T5 = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}


class Case(NamedTuple):
    """model_type, the auto class's suffix, the config's numbers, and which inputs the model takes."""

    model_type: str
    numbers: dict[str, Any]
    head: str = "CausalLM"
    inputs: str = "tokens"


CASES: dict[str, Case] = {
    "gpt2": Case("gpt2", _GPT2),
    "gpt2 untied": Case("gpt2", {**_GPT2, "tie_word_embeddings": False}),
    "gpt_bigcode": Case("gpt_bigcode", _GPT2),
    "opt": Case("opt", {**_BASE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "bloom": Case("bloom", {"vocab_size": 99, "hidden_size": 32, "n_layer": 3, "n_head": 4}),
    "falcon": Case("falcon", {**_BASE, "new_decoder_architecture": False, "multi_query": True}),
    "gpt_neox": Case("gpt_neox", _BASE),
    "gptj": Case("gptj", {**_GPT2, "rotary_dim": 4}),
    "codegen": Case("codegen", {**_GPT2, "rotary_dim": 4}),
    "phi": Case("phi", _GQA),
    "phi3": Case("phi3", _GQA),
    "llama": Case("llama", _GQA),
    "llama head_dim": Case("llama", _WIDE),
    "llama biases": Case("llama", {**_GQA, "attention_bias": True, "mlp_bias": True}),
    "mistral": Case("mistral", {**_GQA, "sliding_window": 8}),
    "qwen2": Case("qwen2", _GQA),
    "qwen3": Case("qwen3", _WIDE),
    "gemma": Case("gemma", _WIDE),
    "gemma2": Case("gemma2", {**_WIDE, "sliding_window": 8}),
    "gemma3": Case("gemma3_text", {**_WIDE, "sliding_window": 8, "num_hidden_layers": 7}),
    "starcoder2": Case("starcoder2", _GQA),
    "stablelm": Case("stablelm", _GQA),
    "olmo": Case("olmo", _GQA),
    "olmo2": Case("olmo2", _GQA),
    "granite": Case("granite", _GQA),
    "smollm3": Case("smollm3", _GQA),
    "cohere": Case("cohere", _GQA),
    "seed_oss": Case("seed_oss", _WIDE),
    "exaone4": Case("exaone4", {**_GQA, "sliding_window": 8}),
    "helium": Case("helium", {**_GQA, "head_dim": 8}),
    "arcee": Case("arcee", _GQA),
    "ernie4_5": Case("ernie4_5", _WIDE),
    "glm4": Case("glm4", _WIDE),
    "mixtral": Case("mixtral", {**_GQA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "olmoe": Case("olmoe", {**_GQA, "num_experts": 8, "num_experts_per_tok": 2}),
    "granitemoe": Case("granitemoe", {**_GQA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": Case(
        "qwen2_moe",
        {
            **_GQA,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 40,
            "decoder_sparse_step": 2,
        },
    ),
    "qwen3_moe": Case(
        "qwen3_moe",
        {**_WIDE, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [1]},
    ),
    "gpt_oss": Case(
        "gpt_oss",
        {**_WIDE, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "num_hidden_layers": 4},
    ),
    "deepseek_v2": Case("deepseek_v2", {**_MLA, "topk_method": "greedy"}),
    "deepseek_v3": Case("deepseek_v3", {**_MLA, "n_group": 2, "topk_group": 1}),
    "deepseek_v3 plain q": Case("deepseek_v3", {**_MLA, "q_lora_rank": None, "n_group": 2, "topk_group": 1}),
    "mamba": Case("mamba", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 3, "state_size": 8}),
    "bert": Case("bert", _BASE, "MaskedLM"),
    "t5": Case("t5", _T5, "Seq2SeqLM", "pairs"),
    "t5 gated": Case(
        "t5", {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, "Seq2SeqLM", "pairs"
    ),
    "bart": Case("bart", _BART, "Seq2SeqLM", "pairs"),
    "whisper": Case(
        "whisper",
        {**_BART, "num_mel_bins": 10, "max_source_positions": 20, "max_target_positions": 16},
        "SpeechSeq2Seq",
        "sound",
    ),
    "vit": Case(
        "vit",
        {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
        "ImageClassification",
        "image",
    ),
}


def model_of(case: Case, device: str = "meta", **extra: Any) -> Any:
    """The model with random weights on the device."""
    config = transformers.AutoConfig.for_model(case.model_type, **case.numbers)
    with torch.device(device):
        return getattr(transformers, f"AutoModelFor{case.head}").from_config(config, **extra)


def inputs_of(case: Case, config: Any, device: str = "meta") -> dict[str, Any]:
    """What a training step would feed it, labels included."""
    with torch.device(device):
        tokens = torch.ones((B, T), dtype=torch.long)
        targets = torch.ones((B, TARGET_LEN), dtype=torch.long)
        return {
            "tokens": lambda: {"input_ids": tokens, "labels": tokens},
            "pairs": lambda: {"input_ids": tokens, "labels": targets},
            "sound": lambda: {
                "input_features": torch.randn(B, config.num_mel_bins, 2 * config.max_source_positions),
                "labels": targets,
            },
            "image": lambda: {
                "pixel_values": torch.randn(B, config.num_channels, config.image_size, config.image_size),
                "labels": torch.zeros(B, dtype=torch.long),
            },
        }[case.inputs]()
