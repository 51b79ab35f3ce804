"""FLOPs of the operations that torch's own registry leaves out, by name, from its own formulas where they fit.

A name that this torch does not have is skipped, so that one table serves every version.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from torch.utils import flop_counter as torchs

Formula = Callable[..., int]
Shape = Sequence[int]


def _product(shape: Shape) -> int:
    size = 1
    for n in shape:
        size *= int(n)
    return size


def _grouped_mm(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """Rows of `a` x columns of `b` x the inner width; a group's rows, columns or inner part are a share of these."""
    per_group = 2 * int(a[-2]) * int(a[-1]) * int(b[-1])
    return per_group * int(a[0]) if len(a) == len(b) == 3 else per_group  # noqa: PLR2004 - a batch of matmuls


def _mv(matrix: Shape, _vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * _product(matrix)


def _addmv(_bias: Shape, matrix: Shape, _vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * _product(matrix)


def _mm(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return int(torchs.mm_flop(a, b))


def _addbmm(_bias: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return int(torchs.bmm_flop(a, b))


def _linear(inputs: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * _product(inputs) * int(weight[0])


def _sdpa(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return int(torchs.sdpa_flop_count(query, key, value))


def _sdpa_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Five matmuls, of which one is the scores once more: the kernel does not keep them."""
    if query[1] != key[1]:  # fewer heads of keys are shared between heads of queries
        key, value = ([s[0], query[1], *s[2:]] for s in (key, value))
    return int(torchs.sdpa_backward_flop_count(grad, query, key, value))


def _heads_first(shape: Shape) -> Shape:
    """(batch, length, heads, width) as torch has it: (batch, heads, length, width)."""
    return (shape[0], shape[2], shape[1], shape[3])


def _flash(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return _sdpa(*(_heads_first(shape) for shape in (query, key, value)))


def _flash_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return _sdpa_backward(*(_heads_first(shape) for shape in (grad, query, key, value)))


def _rnn(inputs: Shape, first: Shape, second: Shape, *_: Any, **__: Any) -> int:
    """Every position times both weights of one layer and direction."""
    return 2 * _product(inputs[:-1]) * (_product(first) + _product(second))


def _rnn_backward(*args: Any, **named: Any) -> int:
    return 2 * _rnn(*args, **named)


def _cudnn_rnn(inputs: Shape, weights: Sequence[Shape], *_: Any, **__: Any) -> int:
    """Every position times every matrix of all layers."""
    return 2 * _product(inputs[:-1]) * sum(_product(each) for each in weights if len(each) > 1)


def _cudnn_rnn_backward(*args: Any, **named: Any) -> int:
    return 2 * _cudnn_rnn(*args, **named)


FORMULAS: dict[str, Formula] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _sdpa,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _sdpa_backward,
    "aten::_scaled_dot_product_fused_attention_overrideable": _sdpa,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _sdpa_backward,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _grouped_mm,
    "aten::_int_mm": _mm,
    "aten::mv": _mv,
    "aten::addmv": _addmv,
    "aten::dot": _mv,
    "aten::vdot": _mv,
    "aten::addbmm": _addbmm,
    "aten::linear": _linear,
    "aten::mkldnn_linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
    "aten::mkldnn_rnn_layer": _rnn,
    "aten::mkldnn_rnn_layer_backward": _rnn_backward,
    "aten::_cudnn_rnn": _cudnn_rnn,
    "aten::_cudnn_rnn_backward": _cudnn_rnn_backward,
    # The flash-attn package, since 2.7 registered with torch; (batch, length, heads, width).
    "flash_attn::_flash_attn_forward": _flash,
    "flash_attn::_flash_attn_backward": _flash_backward,
}

# Parts of a name, between its underscores, that tell a matmul, a convolution, a recurrence or an attention.
MATMUL_WORDS = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "ger", "addr", "matmul", "gemm"),
        *("linear", "convolution", "conv", "conv1d", "conv2d", "conv3d", "attention", "attn", "sdpa", "mha"),
        *("rnn", "lstm", "gru", "einsum", "bilinear", "trilinear", "cdist", "linalg", "fft", "tensordot"),
    )
)
# Elementwise, or what only prepares one of the others.
NO_MATMUL = frozenset(
    (
        *("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl", "aten::_thnn_fused_gru_cell"),
        *("aten::_thnn_fused_gru_cell_backward", "aten::_fused_sdp_choice", "aten::linalg_vector_norm"),
    )
)
# Every operation of another namespace comes from an extension, and may be anything.
TORCHS_OWN = frozenset(
    ("aten", "prim", "prims", "profiler", "debugprims", "rngprims", "inductor", "torch", "torchvision")
)


def looks_like_matmul(name: str) -> bool:
    """Whether an operation without a formula, as `namespace::name`, may hide a matmul."""
    namespace, _, operation = name.partition("::")
    if namespace not in TORCHS_OWN:
        return True
    return name not in NO_MATMUL and not MATMUL_WORDS.isdisjoint(operation.split("_"))
