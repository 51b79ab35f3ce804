"""Reads the products of activations (attention) off the graph that autograd records: shapes and flags, never data.

Nothing is hooked and nothing unpacked: saved tensors stay as they are, so that no recomputation and no copy starts.
"""

from __future__ import annotations

MYPY = False
if MYPY:
    from typing import Any, Iterator

MOST_NODES = 100_000
_DEPTH = 4
_MOST_MASK = 1 << 24
# Nodes of torch's own wrappers: they pass their input on.
_PASSING = ("_DDPSink", "RegisterPostBackward", "PreBackward", "PostBackward", "BackwardHook")
_NAMED_MASKS = frozenset(("tril", "causal_mask", "causal", "subsequent_mask"))
_FREE_OF_MASKS = ("ScaledDotProductFlashAttentionBackward",)
_BATCHED = ("BmmBackward", "BaddbmmBackward")
_PLAIN = ("MmBackward", "AddmmBackward", "LinearBackward", "AddmvBackward", "MvBackward")


def products_in(result: Any) -> dict[str, Any] | None:
    """The fused attentions, the batched and the plain matrix products behind a model's output.

    `attention`: one row per kind of fused attention: batch, heads, queries, keys, width of q and k, width of v, causal,
    gradients of q, k, v, and how many. `product_flops`: of the batched products forward, None where one does not tell.
    `plain`: how many others. `opaque`: nodes that hide what they do. `reached`: by the ids of the parameters that it
    leads to, by how many edges.
    None where there is no graph, or one too large to be read.
    """
    stack = [tensor.grad_fn for tensor in _tensors(result, _DEPTH) if tensor.grad_fn is not None]
    if not stack:
        return None
    seen = set(stack)
    attention: dict[tuple[Any, ...], int] = {}
    plain = 0
    products: int | None = 0
    opaque: set[str] = set()
    leaves: dict[Any, int] = {}
    masks: dict[Any, bool | None] = {}
    while stack:
        if len(seen) > MOST_NODES:
            return None
        node = stack.pop()
        name = node.name()
        if name.startswith("ScaledDotProduct"):
            row = _fused(node, name, masks)
            if row is None:
                opaque.add(name)
            else:
                attention[row] = attention.get(row, 0) + 1
        elif name.startswith(_BATCHED):
            flops = _flops_of(node)
            products = None if products is None or flops is None else products + flops
        elif name.startswith(_PLAIN):
            plain += 1
        elif type(node).__module__ == "torch.autograd.function" and not any(word in name for word in _PASSING):
            opaque.add(name)
        _go_on(node, stack, seen, leaves)
    return {
        "attention": [[*row, many] for row, many in attention.items()],
        "product_flops": products,
        "plain": plain,
        "opaque": sorted(opaque),
        "reached": _by_parameter(leaves),
    }


def edges_to_leaves(value: Any) -> tuple[dict[int, int] | None, int]:
    """By the ids of the parameters that these tensors' graph leads to, the edges that lead there; and its nodes.

    None where there are too many.
    """
    stack = [tensor.grad_fn for tensor in _tensors(value, _DEPTH) if tensor.grad_fn is not None]
    seen = set(stack)
    leaves: dict[Any, int] = {}
    while stack:
        if len(seen) > MOST_NODES:
            return None, len(seen)
        _go_on(stack.pop(), stack, seen, leaves)
    return _by_parameter(leaves), len(seen)


def _go_on(node: Any, stack: list[Any], seen: set[Any], leaves: dict[Any, int]) -> None:
    """Stack what a node leads to, unless it was met, and count the edges to nodes that lead no further."""
    for upstream, _ in node.next_functions:
        if upstream is None:
            continue
        if not upstream.next_functions:
            leaves[upstream] = leaves.get(upstream, 0) + 1
        if upstream not in seen:
            seen.add(upstream)
            stack.append(upstream)


def _by_parameter(leaves: dict[Any, int]) -> dict[int, int]:
    return {id(node.variable): many for node, many in leaves.items() if "AccumulateGrad" in node.name()}


def is_triangular(mask: Any) -> bool | None:
    """True for a mask of the lower triangle, False for one that hides nothing, None for any other.

    A mask on another device than the CPU is not read, for that would wait for the device: None.
    """
    if not _is_square(mask) or mask.device.type != "cpu":
        return None
    mask, torch_bool = mask.detach(), str(mask.dtype) == "torch.bool"
    open_at = mask if torch_bool else mask > mask.amin() / 2 if bool((mask < -1).any()) else mask > -1
    rows = open_at.reshape(-1, *open_at.shape[-2:]).any(0)
    if bool(rows.all()):
        return False
    if torch_bool and bool((rows == rows.new_ones(rows.shape).triu(1)).all()):
        return True  # nn.MultiheadAttention's boolean masks say what is hidden
    return True if bool((rows == rows.new_ones(rows.shape).tril()).all()) else None


def is_triangle(name: str, buffer: Any) -> bool:
    """Whether a module's buffer is a causal mask: zeros or minus infinities above a diagonal of anything else."""
    if not _is_square(buffer):
        return False
    if buffer.device.type != "cpu":
        return name in _NAMED_MASKS
    nothing = buffer == 0
    above = nothing.new_ones(buffer.shape).triu(1)
    is_bool = str(buffer.dtype) == "torch.bool"
    hidden = nothing if is_bool or not bool((buffer < 0).any()) else ~nothing
    return bool((hidden == above).all()) or (is_bool and bool((~hidden == above).all()))


def _is_square(mask: Any) -> bool:
    dims = mask.shape
    return len(dims) > 1 and 1 < dims[-1] == dims[-2] and mask.numel() <= _MOST_MASK


def _fused(node: Any, name: str, masks: dict[Any, bool | None]) -> tuple[Any, ...] | None:
    """A row of `attention`, or None where the graph does not have all of its shapes."""
    batch, heads, queries, v_width = _recorded(node, 0)
    shapes = [None if at is None else _recorded(at, index) for at, index in node.next_functions[:3]]
    query, key, value = shapes
    known = key or value
    width = query or key
    if known is None or width is None:
        return None
    grads = "".join(letter for letter, shape in zip("qkv", shapes) if shape is not None)
    causal: bool | None = bool(node._saved_is_causal)  # noqa: SLF001 - a flag, kept as such
    if not causal and not name.startswith(_FREE_OF_MASKS):
        causal = _of_mask(node, masks)
    return (batch, heads, queries, known[-2], width[-1], v_width, causal, grads)


def _flops_of(node: Any) -> int | None:
    """Of a batched product forward: its output times the width that was summed over."""
    rows, columns = node.next_functions[-2:]
    flops = 2
    for n in _recorded(node, 0):
        flops *= n
    if rows[0] is not None:
        return flops * _recorded(*rows)[-1]
    return None if columns[0] is None else flops * _recorded(*columns)[-2]


def _recorded(node: Any, index: int) -> tuple[int, ...]:
    """The shape of an operation's output, as autograd expects its gradient."""
    return tuple(int(n) for n in node._input_metadata[index].shape)  # noqa: SLF001 - its name since torch 2.1


def _of_mask(node: Any, masks: dict[Any, bool | None]) -> bool | None:
    """Whether a fused attention without the causal flag is causal by its mask; False without a mask.

    masks: the answers so far, for layers share one mask.
    """
    saved: Any = getattr(node, "_raw_saved_attn_mask", None)
    saved = getattr(node, "_raw_saved_attn_bias", None) if saved is None else saved
    if not hasattr(saved, "data") or not hasattr(saved, "unpack_hook"):
        return None  # an older torch shows it only by unpacking
    if saved.unpack_hook is not None:
        return None
    mask = saved.data
    if mask is None:
        return False
    if mask.device.type != "cpu":
        return None
    key = (mask.data_ptr(), tuple(mask.shape))
    if key not in masks:
        masks[key] = is_triangular(mask)
    return masks[key]


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if hasattr(value, "grad_fn"):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each, depth - 1)
    elif depth and hasattr(value, "__dict__"):
        yield from _tensors(list(vars(value).values()), depth - 1)
