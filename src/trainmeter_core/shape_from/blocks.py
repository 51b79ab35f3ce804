"""The components of common layers, and a dense decoder built from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Sequence

from trainmeter_core.model_shape import (
    TOKENS,
    AttentionCore,
    Component,
    Lookup,
    Matmul,
    ModelShape,
    Stream,
)


def attention(
    width: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    window: int | None = None,
    chunked: bool = False,
    causal: bool | None = True,
    qkv_bias: bool = False,
    o_bias: bool = False,
    stream: Stream = TOKENS,
) -> list[Component]:
    """Self-attention with full, grouped or single key and value heads; q width = heads * head_dim."""
    q, kv = heads * head_dim, kv_heads * head_dim
    return [
        Matmul("attention.q", width, q, bias=qkv_bias, stream=stream),
        Matmul("attention.k", width, kv, bias=qkv_bias, stream=stream),
        Matmul("attention.v", width, kv, bias=qkv_bias, stream=stream),
        AttentionCore(
            q, q, heads, kv_heads, window=window, chunked=chunked, causal=causal, queries=stream, keys=stream
        ),
        Matmul("attention.o", q, width, bias=o_bias, stream=stream),
    ]


def mlp(
    width: int, hidden: int, *, gated: bool, bias: bool = False, stream: Stream = TOKENS, part: str = "mlp"
) -> list[Component]:
    """Two matrices, or three with a gate (SwiGLU, GeGLU and their kin)."""
    gate: list[Component] = [Matmul(f"{part}.gate", width, hidden, bias=bias, stream=stream)] if gated else []
    return [
        *gate,
        Matmul(f"{part}.up", width, hidden, bias=bias, stream=stream),
        Matmul(f"{part}.down", hidden, width, bias=bias, stream=stream),
    ]


def mtp_layer(width: int, vocabulary: int, block: Iterable[Component]) -> list[Component]:
    """A multi-token-prediction layer: a projection of two joined hidden states, a block, and the shared head again."""
    return [
        Matmul("mtp.projection", 2 * width, width),
        *block,
        Matmul("head.weight", width, vocabulary, tied=True),
    ]


def merged(components: Iterable[Component]) -> tuple[Component, ...]:
    """Equal components as one with the sum of their counts, in the order of first appearance."""
    counts: dict[Component, int] = {}
    for component in components:
        key = replace(component, count=1)
        counts[key] = counts.get(key, 0) + component.count
    return tuple(replace(component, count=count) for component, count in counts.items())


def bias_parameters(components: Iterable[Component]) -> int:
    """Elements of the biases that the components name."""
    return sum(m.outputs * m.count * m.experts for m in components if isinstance(m, Matmul) and m.bias)


def assembled(
    components: Iterable[Component],
    *,
    norms: int,
    width: int,
    layers: int,
    family: str,
    others: int = 0,
    main_input: int = 0,
) -> ModelShape:
    """A trainable model of these components; norms, others: elements of norms, and of parameters in no component."""
    parts = merged(components)
    norm_bias = norms + bias_parameters(parts)
    weights = sum(m.weights for m in parts if isinstance(m, Matmul) and not m.tied)
    tables = sum(table.weights for table in parts if isinstance(table, Lookup))
    total = weights + tables + norm_bias + others
    return ModelShape(parts, total, total, norm_bias, width, layers, family=family, main_input=main_input)


def dense_decoder(
    *,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int,
    ffn: int,
    kv_heads: int = 0,
    head_dim: int = 0,
    gated: bool = False,
    windows: Sequence[int | None] = (None,),
    tied: bool = False,
    positions: int = 0,
    norms: int = 0,
    qkv_bias: bool = False,
    o_bias: bool = False,
    mlp_bias: bool = False,
    head_bias: bool = False,
    family: str = "dense decoder",
) -> ModelShape:
    """A decoder-only transformer.

    kv_heads, head_dim: 0 means `heads` and `width // heads`.  windows: one per layer, repeated as a pattern.
    positions: rows of a learned position table.  norms: elements of all norms, their biases included.
    """
    components: list[Component] = [Lookup("token", vocabulary, width)]
    if positions:
        components.append(Lookup("position", positions, width))
    for layer in range(layers):
        components += attention(
            width,
            heads,
            kv_heads or heads,
            head_dim or width // heads,
            window=windows[layer % len(windows)],
            qkv_bias=qkv_bias,
            o_bias=o_bias,
        )
        components += mlp(width, ffn, gated=gated, bias=mlp_bias)
    components.append(Matmul("head.weight", width, vocabulary, tied=tied, bias=head_bias))
    return assembled(components, norms=norms, width=width, layers=layers, family=family)
