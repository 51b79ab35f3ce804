"""Reads (sequences, length, target length) off the arguments of a model call: shapes and dtypes only, never data."""

from __future__ import annotations

MYPY = False
if MYPY:
    from typing import Any, Tuple

    Shape = Tuple[int, int, int]

_NESTING = 2
_LOOKED_AT = 16

_TOKEN_NAMES = (
    *("input_ids", "idx", "tokens", "inputs_embeds", "input_features", "pixel_values", "input_values"),
    *("x", "input", "inputs"),
)
_TARGET_NAMES = ("decoder_input_ids", "labels")

_INTEGER_DTYPES = frozenset(
    "torch." + name for name in ("int64", "int32", "int16", "uint8", "int8", "long", "int", "uint16", "uint32")
)
# str(dtype) allocates; a dtype is a singleton, so its verdict is remembered by identity.
_is_integer: dict[Any, bool] = {}


def batch_shape(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape | None:
    """Give (B, T, T2) of the batch in a call, or None when nothing in it has a shape.

    Token ids of shape (B, T) give B sequences of T tokens; a packed row (T,) is one sequence. Anything else (images,
    features) gives its first dimension as samples, with T = 0. T2 is the target's length where it has one of its own.
    Token ids beside the state of a recurrent network, (layers, B, width), are (T, B).
    """
    if args:
        # The common call, model(ids, targets), without a search.
        first = args[0]
        dtype = getattr(first, "dtype", None)
        if dtype is not None and (_is_integer.get(dtype) or _holds_integers(dtype)):
            dims = first.shape
            if len(dims) == 2:  # noqa: PLR2004 - (B, T)
                if len(args) > 1 and _is_recurrent_state(args[1], dims):
                    return (dims[1], dims[0], 0)
                return (dims[0], dims[1], 0)
    if kwargs:
        for name in _TOKEN_NAMES:
            value = kwargs.get(name)
            if value is not None and hasattr(value, "dtype"):
                found = _of_tensor(value, embedded=name == "inputs_embeds")
                if found is not None:
                    return _with_target(found, kwargs)
    found = _search(args, _NESTING)
    if found is None and kwargs:
        found = _search(tuple(kwargs.values()), _NESTING)
    return found


def time_first_shape(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape | None:
    """`batch_shape` of a model that is given its token ids as (T, B), which their own shape does not tell."""
    shape = batch_shape(args, kwargs)
    if shape is None or not shape[1] or not args:
        return shape
    dims: Any = getattr(args[0], "shape", ())
    return time_first(shape) if len(dims) == 2 and dims[0] == shape[0] else shape  # noqa: PLR2004 - (T, B)


def time_first(shape: Shape) -> Shape:
    """Give (B, T, T2) for what was taken to be (T, B, T2)."""
    return (shape[1], shape[0], shape[2])


def _is_recurrent_state(value: Any, dims: Any) -> bool:
    """Say whether the second argument is a state whose batch dimension is the second one of the token ids."""
    if isinstance(value, tuple) and value:
        value = value[0]
    state: Any = getattr(value, "shape", ())
    return len(state) == 3 and state[1] == dims[1] and dims[0] not in (dims[1], state[0])  # noqa: PLR2004


def _with_target(shape: Shape, kwargs: dict[str, Any]) -> Shape:
    for name in _TARGET_NAMES:
        value = kwargs.get(name)
        dims = getattr(value, "shape", None)
        if dims is not None and len(dims) == 2 and int(dims[1]) != shape[1]:  # noqa: PLR2004 - (B, T)
            return (shape[0], shape[1], int(dims[1]))
    return shape


def _search(values: Any, depth: int) -> Shape | None:
    """Take the first tensor of token ids; without one, the first tensor at all.

    A row of integers as long as another tensor has samples is their labels or time steps, not a packed sequence.
    """
    row: Shape | None = None
    samples: Shape | None = None
    for value in values[:_LOOKED_AT]:
        found: Shape | None = None
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            found = _of_tensor(value, embedded=False)
        elif not depth:
            continue
        elif isinstance(value, (list, tuple)):
            found = _search(value, depth - 1)
        elif hasattr(value, "keys") and hasattr(value, "get"):
            found = batch_shape((), dict(value)) if depth == _NESTING else _search(tuple(value.values()), 0)
        if found is None:
            continue
        if not found[1]:
            samples = samples or found
        elif found[0] == 1 and len(getattr(value, "shape", "  ")) == 1:
            row = row or found
        else:
            return found
    return samples if row is None or (samples is not None and samples[0] == row[1]) else row


def _of_tensor(tensor: Any, embedded: bool) -> Shape | None:
    dims = tensor.shape
    rank = len(dims)
    if rank == 0:
        return None
    if _holds_integers(tensor.dtype):
        if rank == 2:  # noqa: PLR2004 - (B, T)
            return (int(dims[0]), int(dims[1]), 0)
        if rank == 1:
            return (1, int(dims[0]), 0)
    elif embedded and rank == 3:  # noqa: PLR2004 - (B, T, d)
        return (int(dims[0]), int(dims[1]), 0)
    return (int(dims[0]), 0, 0)


def _holds_integers(dtype: Any) -> bool:
    known = _is_integer.get(dtype)
    if known is None:
        known = _is_integer[dtype] = str(dtype) in _INTEGER_DTYPES
    return known
