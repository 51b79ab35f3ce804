"""The modules of families that are not decoder stacks of attention and MLP, written out from their config."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .entries import Entry, conv, linear, norm, other, table

Config = Mapping[str, Any]


def _t5(c: Config) -> list[Entry]:
    d, inner, ff, heads = c["d_model"], c["num_heads"] * c["d_kv"], c["d_ff"], c["num_heads"]
    encoder, decoder = c["num_layers"], c.get("num_decoder_layers") or c["num_layers"]
    gated = str(c.get("feed_forward_proj", "relu")).startswith("gated")

    def attention(names: str, n: int) -> list[Entry]:
        return [
            *linear(f"{names}.q", inner, d, n),
            *linear(f"{names}.k", inner, d, n),
            *linear(f"{names}.v", inner, d, n),
            *linear(f"{names}.o", d, inner, n),
        ]

    def stack(name: str, n: int, sublayers: int) -> list[Entry]:
        block = f"{name}.block.*.layer.*"
        return [
            *attention(f"{block}.SelfAttention", n),
            *table(f"{block}.SelfAttention.relative_attention_bias", c["relative_attention_num_buckets"], heads),
            *linear(f"{block}.DenseReluDense.wi_0", ff, d, n if gated else 0),
            *linear(f"{block}.DenseReluDense.wi", ff, d, n),
            *linear(f"{block}.DenseReluDense.wo", d, ff, n),
            *norm(f"{block}.layer_norm", d, sublayers * n + 1),
        ]

    return [
        *table("shared", c["vocab_size"], d),
        *stack("encoder", encoder, 2),
        *stack("decoder", decoder, 3),
        *attention("decoder.block.*.layer.*.EncDecAttention", decoder),
        *linear("lm_head", c["vocab_size"], d, tied=bool(c.get("tie_word_embeddings", True))),
    ]


def _bert(c: Config) -> list[Entry]:
    """With the masked-language-model head, whose bias is its own and whose matrix is the token table."""
    d, n, ff, layer = c["hidden_size"], c["num_hidden_layers"], c["intermediate_size"], "bert.encoder.layer.*"
    return [
        *table("bert.embeddings.word_embeddings", c["vocab_size"], d),
        *table("bert.embeddings.position_embeddings", c["max_position_embeddings"], d),
        *table("bert.embeddings.token_type_embeddings", c["type_vocab_size"], d),
        *norm("bert.embeddings.LayerNorm", d, parts=2),
        *linear(f"{layer}.attention.self.query", d, d, n, bias=True),
        *linear(f"{layer}.attention.self.key", d, d, n, bias=True),
        *linear(f"{layer}.attention.self.value", d, d, n, bias=True),
        *linear(f"{layer}.attention.output.dense", d, d, n, bias=True),
        *linear(f"{layer}.intermediate.dense", ff, d, n, bias=True),
        *linear(f"{layer}.output.dense", d, ff, n, bias=True),
        *norm(f"{layer}.output.LayerNorm", d, 2 * n, parts=2),
        *linear("cls.predictions.transform.dense", d, d, bias=True),
        *norm("cls.predictions.transform.LayerNorm", d, parts=2),
        *linear("cls.predictions.decoder", c["vocab_size"], d, bias=True, tied=c.get("tie_word_embeddings", True)),
    ]


def _vit(c: Config) -> list[Entry]:
    """With the classifier of `num_labels` or of as many as `id2label` names, two by Hugging Face's default."""
    d, n, ff, patch, layer = (
        c["hidden_size"],
        c["num_hidden_layers"],
        c["intermediate_size"],
        c["patch_size"],
        "layers.*",
    )
    labels = c.get("num_labels") or len(c.get("id2label") or (0, 1))
    patches = (c["image_size"] // patch) ** 2
    qkv_bias = bool(c.get("qkv_bias", True))
    return [
        *other("embeddings.cls_token", (1, d)),
        *other("embeddings.position_embeddings", (patches + 1, d)),
        *conv("embeddings.patch_embeddings.projection", d, c["num_channels"], (patch, patch), bias=True),
        *linear(f"{layer}.attention.q_proj", d, d, n, bias=qkv_bias),
        *linear(f"{layer}.attention.k_proj", d, d, n, bias=qkv_bias),
        *linear(f"{layer}.attention.v_proj", d, d, n, bias=qkv_bias),
        *linear(f"{layer}.attention.o_proj", d, d, n, bias=True),
        *linear(f"{layer}.mlp.fc1", ff, d, n, bias=True),
        *linear(f"{layer}.mlp.fc2", d, ff, n, bias=True),
        *norm(f"{layer}.layernorm", d, 2 * n + 1, parts=2),
        *linear("classifier", labels, d, bias=True),
    ]


def _stack_of_bart(side: str, c: Config, *, k_bias: bool) -> list[Entry]:
    """An encoder or decoder of BART's kind, which Whisper shares but for the bias of its keys."""
    d, n, ff, layer = c["d_model"], c[f"{side}_layers"], c[f"{side}_ffn_dim"], f"model.{side}.layers.*"
    names = ["self_attn", *(["encoder_attn"] if side == "decoder" else [])]
    entries: list[Entry] = []
    for name in names:
        entries += [
            *linear(f"{layer}.{name}.q_proj", d, d, n, bias=True),
            *linear(f"{layer}.{name}.k_proj", d, d, n, bias=k_bias),
            *linear(f"{layer}.{name}.v_proj", d, d, n, bias=True),
            *linear(f"{layer}.{name}.out_proj", d, d, n, bias=True),
        ]
    return [
        *entries,
        *linear(f"{layer}.fc1", ff, d, n, bias=True),
        *linear(f"{layer}.fc2", d, ff, n, bias=True),
        *norm(f"{layer}.layer_norm", d, (len(names) + 1) * n + 1, parts=2),
    ]


def _whisper(c: Config) -> list[Entry]:
    d, mels = c["d_model"], c["num_mel_bins"]
    return [
        *conv("model.encoder.conv1", d, mels, (3,), bias=True),
        *conv("model.encoder.conv2", d, d, (3,), bias=True),
        *table("model.encoder.embed_positions", c["max_source_positions"], d),
        *_stack_of_bart("encoder", c, k_bias=False),
        *table("model.decoder.embed_tokens", c["vocab_size"], d),
        *table("model.decoder.embed_positions", c["max_target_positions"], d),
        *_stack_of_bart("decoder", c, k_bias=False),
        *linear("proj_out", c["vocab_size"], d, tied=True),
    ]


def _bart(c: Config) -> list[Entry]:
    d, rows = c["d_model"], c["max_position_embeddings"] + 2
    return [
        *table("model.shared", c["vocab_size"], d),
        *table("model.encoder.embed_positions", rows, d),
        *_stack_of_bart("encoder", c, k_bias=True),
        *table("model.decoder.embed_positions", rows, d),
        *_stack_of_bart("decoder", c, k_bias=True),
        *linear("lm_head", c["vocab_size"], d, tied=True),
    ]


def _mamba(c: Config) -> list[Entry]:
    d, n, state, mixer = c["hidden_size"], c["num_hidden_layers"], c["state_size"], "backbone.layers.*.mixer"
    inner, rank = c.get("intermediate_size") or c["expand"] * d, c["time_step_rank"]
    use_bias = bool(c.get("use_bias"))
    return [
        *table("backbone.embeddings", c["vocab_size"], d),
        *other(f"{mixer}.D", (inner,), n),
        *other(f"{mixer}.A_log", (inner, state), n),
        *conv(f"{mixer}.conv1d", inner, inner, (c["conv_kernel"],), n, groups=inner, bias=bool(c["use_conv_bias"])),
        *linear(f"{mixer}.in_proj", 2 * inner, d, n, bias=use_bias),
        *linear(f"{mixer}.x_proj", rank + 2 * state, inner, n),
        *linear(f"{mixer}.dt_proj", inner, rank, n, bias=True),
        *linear(f"{mixer}.out_proj", d, inner, n, bias=use_bias),
        *norm("backbone.norm", d, n + 1),
        *linear("lm_head", c["vocab_size"], d, tied=bool(c.get("tie_word_embeddings", True))),
    ]


TEMPLATES: dict[str, Callable[[Config], list[Entry]]] = {
    "t5": _t5,
    "bert": _bert,
    "vit": _vit,
    "whisper": _whisper,
    "bart": _bart,
    "mamba": _mamba,
}
