"""What a module is for, by its name: the names in use, as data."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

Entry = Mapping[str, Any]
"""One entry of a description's `modules`."""

_NAMES: dict[str, str] = {
    "attention.qkv": "c_attn qkv qkv_proj query_key_value Wqkv att_proj attn.in_proj",
    "attention.q": "q_proj q query wq c_q to_q q_lin linear_q query_proj",
    "attention.k": "k_proj k key wk c_k to_k k_lin linear_k key_proj",
    "attention.v": "v_proj v value wv c_v to_v v_lin linear_v value_proj",
    "attention.o": "o_proj wo out_lin to_out o linear_out attn.c_proj attention.dense self_attention.dense "
    "self_attn.dense attn.out_proj self_attn.out_proj encoder_attn.out_proj attn.proj attention.output.dense",
    "attention.q_down": "q_a_proj wq_a",
    "attention.q_up": "q_b_proj wq_b",
    "attention.kv_down": "kv_a_proj_with_mqa wkv_a",
    "attention.kv_up": "kv_b_proj wkv_b",
    "mlp.gate_up": "gate_up_proj",
    "mlp.gate": "gate_proj w1 c_gate wi_0",
    "mlp.up": "up_proj w3 c_fc fc1 fc_in dense_h_to_4h linear1 lin1 wi wi_1 intermediate.dense",
    "mlp.down": "down_proj w2 fc2 fc_out dense_4h_to_h linear2 lin2 mlp.c_proj mlp.wo mlp.proj DenseReluDense.wo "
    "output.dense",
    "router.weight": "router gate",
    "router.shared_gate": "shared_expert_gate",
    "head.weight": "lm_head embed_out unembed unembedding",
    "ssm.in": "mixer.in_proj mamba.in_proj",
    "ssm.out": "mixer.out_proj mamba.out_proj",
    "ssm.x": "x_proj",
    "ssm.dt": "dt_proj",
    "linear_attention.in": "in_proj_qkvz in_proj_ba in_proj_qkv in_proj_z in_proj_a in_proj_b",
    "linear_attention.out": "linear_attn.out_proj",
}
# Name endings, longest first in a lookup: `attn.c_proj` is the attention's output, `mlp.c_proj` the MLP's.
ROLES: dict[tuple[str, ...], str] = {
    tuple(name.split(".")): role for role, names in _NAMES.items() for name in names.split()
}
POSITION_TABLES = frozenset(
    (
        "wpe",
        "pos_emb",
        "position_embeddings",
        "position_embedding",
        "embed_positions",
        "pos_embed",
        "positional_embedding",
        "pos_embedding",
        "position_embed",
        "pos_embeddings",
    )
)
OTHER_TABLES = frozenset(("token_type_embeddings", "relative_attention_bias", "segment_embeddings", "value_embeds"))
LORA_SIDES = ("lora_A", "lora_B")
LINEARS = ("linear", "conv1d_hf")


def parts_of(entry: Entry) -> list[str]:
    """The parts of a module's name, without numbers and without PEFT's own."""
    parts = [part for part in str(entry["names"]).split(".") if part not in ("*", "base_layer")]
    for side in LORA_SIDES:
        if side in parts:
            return parts[: parts.index(side)]
    return parts or [""]


def role_of(entry: Entry, vocabularies: Iterable[int] = ()) -> str:
    """The role of a linear layer by its name; `head.weight` also for a tied one; `linear.<name>` when unknown."""
    for side in LORA_SIDES:
        if f".{side}." in f"{entry['names']}.":
            return f"adapter.{side[-1]}"
    parts = parts_of(entry)
    if entry["shape"][0] in set(vocabularies) and (entry["tied"] or len(_below_top(parts)) == 1):
        return "head.weight"
    role = next((ROLES[end] for n in (3, 2, 1) for end in [tuple(parts[-n:])] if end in ROLES), "")
    if any("shared_expert" in part for part in parts[:-1]):
        return f"shared_experts.{role.rpartition('.')[2] or parts[-1]}"
    return role or f"linear.{parts[-1] or 'weight'}"


def _below_top(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part not in ("model", "module", "transformer", "cls", "predictions")]
