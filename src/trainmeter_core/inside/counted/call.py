"""What one call of the model was given, as shapes: tensors are replaced by their facts, so that none is kept alive."""

from __future__ import annotations

from enum import Enum
from typing import Any, Mapping, NamedTuple, Sequence

_DEPTH = 4
_MOST = 4096


class TensorFacts(NamedTuple):
    """A tensor of a call without its data."""

    shape: Sequence[int]
    dtype: Any
    device: Any
    requires_grad: bool


class Call(NamedTuple):
    """Arguments of a model call, and the dtype that autocast had for the device then; None where it was off."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    batch: Any
    autocast: Any = None


class NotSeen(Exception):  # noqa: N818 - a reason rather than an error
    """An argument that cannot be kept as facts; the text says which."""


def facts_of(value: Any, depth: int = _DEPTH) -> Any:
    """The value with every tensor replaced by its facts. Raises NotSeen for an object that may hold one."""
    if value is None or isinstance(value, (int, float, bool, str)):
        return value
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and hasattr(value, "requires_grad"):
        sizes = tuple(int(n) for n in shape)
        return TensorFacts(sizes, dtype, value.device, bool(value.requires_grad))
    kind = type(value)
    mapping = hasattr(value, "keys") and hasattr(value, "__getitem__")
    if mapping or isinstance(value, (list, tuple)):
        if not depth or len(value) > _MOST:
            raise NotSeen(
                "an argument of type " + kind.__name__ + " that is nested deeper, or longer, than is searched"
            )
        if mapping:
            return _Mapping(kind, {key: facts_of(value[key], depth - 1) for key in value.keys()})  # noqa: SIM118 - as asked
        return _Sequence(kind, [facts_of(each, depth - 1) for each in value])
    if isinstance(value, Enum) or kind.__module__ == "torch" or (not hasattr(value, "__dict__") and not _holds(value)):
        return value  # a member of an enum, a dtype, a device: it holds no tensor
    raise NotSeen("an argument of type " + kind.__name__)


def _holds(value: Any) -> bool:
    """Whether it is a container of a kind that is not searched."""
    return hasattr(value, "__iter__") and not isinstance(value, (bytes, range))


class _Sequence(NamedTuple):
    kind: Any
    facts: list[Any]


class _Mapping(NamedTuple):
    kind: Any
    facts: dict[Any, Any]


def made_of(facts: Any, tensor: Any) -> Any:
    """The value again, each tensor made by `tensor(facts)`; a container becomes one of the same kind."""
    if isinstance(facts, TensorFacts):
        return tensor(facts)
    if isinstance(facts, _Mapping):
        made = {key: made_of(each, tensor) for key, each in facts.facts.items()}
        if facts.kind is dict:
            return made
        try:
            return facts.kind(made)
        except TypeError:  # a dataclass-like output, made from keywords
            return facts.kind(**made)
    if isinstance(facts, _Sequence):
        parts = [made_of(each, tensor) for each in facts.facts]
        return facts.kind(*parts) if hasattr(facts.kind, "_fields") else facts.kind(parts)
    return facts
