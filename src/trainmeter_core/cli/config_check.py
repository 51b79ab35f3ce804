"""Whether the numbers of a config file are ones that a model can have, before anything is computed with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.shape_from.config_facts import ALIASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COUNTS = (*ALIASES["layers"], "num_decoder_layers", "encoder_layers", "decoder_layers")
# A model has some of these; the others may be 0 where it has none.
_NEEDED = frozenset((*_COUNTS, *(name for what in ("width", "heads", "vocabulary") for name in ALIASES[what])))
_MAY_BE_NEGATIVE = frozenset(ALIASES["window"])  # for "no window", in some configs
_OTHERS = (
    *("d_kv", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads", "decoder_attention_heads"),
    *("num_mel_bins", "max_source_positions", "max_target_positions", "image_size", "patch_size", "num_channels"),
    *("state_size", "conv_kernel", "expand", "time_step_rank", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim"),
    *("qk_rope_head_dim", "v_head_dim", "moe_intermediate_size", "shared_expert_intermediate_size"),
    *("n_shared_experts", "first_k_dense_replace", "decoder_sparse_step", "relative_attention_num_buckets"),
    *("type_vocab_size", "num_labels", "sequence_len", "multiple_of"),
)
_NUMBERS = frozenset((*_COUNTS, *_OTHERS, *(name for names in ALIASES.values() for name in names)))
MOST_LAYERS, MOST = 10_000, 1 << 40


def what_is_wrong(config: Mapping[str, Any]) -> str:
    """One line naming the first number that no model has; empty when all are fine."""
    for where, table in _tables(config):
        for name in sorted(_NUMBERS.intersection(table)):
            wrong = _wrong(name, table[name])
            if wrong:
                return f"{where}{name} is {str(table[name])[:40]}, {wrong}"
    return ""


def _tables(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "", config
    for name, value in config.items():
        if isinstance(value, dict) and name.endswith("_config"):
            yield f"{name}.", value


def _wrong(name: str, value: object) -> str:
    if value is None or isinstance(value, list) or value == "auto":
        return ""  # left to the model's own default, or one for each layer
    if isinstance(value, bool) or not isinstance(value, int):
        return "which is not a whole number"
    if value < 0 and name not in _MAY_BE_NEGATIVE:
        return "which is negative"
    if not value and name in _NEEDED:
        return "which makes no model"
    return "which is too large" if value > (MOST_LAYERS if name in _COUNTS else MOST) else ""
