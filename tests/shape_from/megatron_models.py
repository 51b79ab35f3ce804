"""Makes small GPTs of Megatron-Core, with what a CPU lacks put aside, and prints what each has and what we tell of it.

A line of JSON each: the case, its parameters, and those of the shape, or why there is none.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

warnings.simplefilter("ignore")
LLAMA = {"add_bias_linear": False, "gated_linear_unit": True, "normalization": "RMSNorm"}
MIXTURE = {**LLAMA, "num_moe_experts": 4, "moe_ffn_hidden_size": 24}
LATENT = {**LLAMA, "qk_layernorm": True, "kv_lora_rank": 20, "qk_head_dim": 8, "qk_pos_emb_head_dim": 4,
          "v_head_dim": 6, "rope_type": "rope", "q_lora_rank": 12}  # fmt: skip
ROPE = {"position_embedding_type": "rope"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "GPT-2": ({}, {}),
    "rotary": ({}, ROPE),
    "Llama with two query groups": ({**LLAMA, "num_query_groups": 2}, ROPE),
    "biases of QKV alone, a tied head": (
        {**LLAMA, "add_qkv_bias": True}, {**ROPE, "share_embeddings_and_output_weights": True},
    ),
    "norms of Q and K, wide heads": ({**LLAMA, "qk_layernorm": True, "kv_channels": 16, "ffn_hidden_size": 72}, ROPE),
    "experts": (MIXTURE, ROPE),
    "experts in every other layer": ({**MIXTURE, "moe_layer_freq": 2}, ROPE),
    "a dense layer first, a shared expert": (
        {**MIXTURE, "moe_layer_freq": [0, 1, 1, 1], "moe_shared_expert_intermediate_size": 40}, ROPE,
    ),
    "a shared expert with a gate": (
        {**MIXTURE, "moe_shared_expert_intermediate_size": 40, "moe_shared_expert_gate": True}, ROPE,
    ),
    "latent attention": (LATENT, ROPE),
    "latent attention, queries as they are": ({**LATENT, "q_lora_rank": None}, ROPE),
    "latent attention and experts": (
        {**LATENT, **MIXTURE, "moe_layer_freq": [0, 1, 1, 1], "moe_shared_expert_intermediate_size": 48}, ROPE,
    ),
    "a window in three layers of four": ({**LLAMA, "window_size": (7, 0), "window_attn_skip_freq": 4}, ROPE),
    "latent attention with other norms": ({**LATENT, "normalization": "LayerNorm"}, ROPE),
    "several tokens predicted": ({**LLAMA, "mtp_num_layers": 1}, ROPE),
}  # fmt: skip


def main() -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    torch.cuda.current_device = lambda: torch.device("cpu")
    from megatron.core import parallel_state
    from megatron.core.models.gpt import gpt_layer_specs as specs
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import dot_product_attention, multi_latent_attention
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

    from trainmeter_core.inside.describe import describe
    from trainmeter_core.shape_from import shape_of

    random.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    # Latent attention is made for Transformer Engine, which has no build without CUDA.
    core = dot_product_attention.DotProductAttention
    original = core.__init__

    def without_widths(self, *args, k_channels=None, v_channels=None, **how):
        original(self, *args, **how)

    core.__init__ = without_widths
    for name in ("TELinear", "TEColumnParallelLinear", "TERowParallelLinear"):
        setattr(multi_latent_attention, name, type(name, (), {}))

    for name, (settings, how) in CASES.items():
        is_latent = "kv_lora_rank" in settings
        kind = MLATransformerConfig if is_latent else TransformerConfig
        config = kind(num_layers=4, hidden_size=32, num_attention_heads=4, use_cpu_initialization=True, **settings)
        spec = (
            specs.get_gpt_decoder_block_spec(config, use_transformer_engine=False)
            if config.num_moe_experts
            else specs.get_gpt_layer_local_spec(
                qk_layernorm=config.qk_layernorm, normalization=config.normalization, multi_latent_attention=is_latent
            )
        )
        if config.window_size:
            core.__init__ = lambda self, *args, **how: torch.nn.Module.__init__(self)
        model = GPTModel(config, spec, vocab_size=64, max_sequence_length=16, **how)
        shape = shape_of(describe(model))
        told = shape[0] if isinstance(shape, tuple) else None
        line = {
            "case": name,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "told": told.parameters if told else str(shape),
            "inactive": told.inactive_parameters if told else None,
            "windows": [[each.count, each.window] for each in told.components if hasattr(each, "window")]
            if told
            else None,
        }
        print(json.dumps(line))
    sys.stdout.flush()


main()
