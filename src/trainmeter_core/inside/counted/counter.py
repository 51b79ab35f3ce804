"""Counts the FLOPs of every operation that runs while it is entered, by torch's own formulas and ours."""

from __future__ import annotations

from time import monotonic
from typing import Any

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

from .formulas import FORMULAS, looks_like_matmul

_BETWEEN_LOOKS = 500
_PAGE = 4096
# What is done with an operation that has no FLOPs of its own: those of its parts are counted, or it has none.
_PARTS, _FREE = object(), object()


class GaveUp(BaseException):
    """Counting ended early; the text says why."""


class Counter(TorchDispatchMode):
    """A dispatch mode with the sum in `flops`, and in `gaps` how often an operation without a formula was met.

    It has no module tracker, unlike torch's FlopCounterMode: that one registers global module hooks, which a compiled
    model of the user's would be guarded on. Raises GaveUp at `deadline` (monotonic seconds), past `most_bytes` of new
    resident memory, and before an operation that would communicate.
    """

    def __init__(self, deadline: float, most_bytes: int) -> None:
        super().__init__()
        self.flops = 0
        self.gaps: dict[str, int] = {}
        self.operations = 0
        self._deadline = deadline
        self._most_bytes = most_bytes
        self._resident = _resident_bytes()
        self._formula_of: dict[Any, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _asks_metadata(func):
            return func(*args, **kwargs) if func is torch.ops.prim.device.default else NotImplemented
        self._check()
        formula = self._formula_of.get(func)
        if formula is None:
            formula = self._formula_of[func] = self._find(func)
        if formula is _PARTS:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        if isinstance(formula, str):
            self.gaps[formula] = self.gaps.get(formula, 0) + 1
        elif callable(formula):
            self.flops += int(formula(*args, **kwargs, out_val=result))
        return result

    def _check(self) -> None:
        self.operations += 1
        if monotonic() > self._deadline:
            raise GaveUp("counting took too long")
        if self.operations % _BETWEEN_LOOKS == 0 and _resident_bytes() - self._resident > self._most_bytes:
            raise GaveUp("counting took too much memory")

    def _find(self, func: Any) -> Any:
        """The formula, the name of an operation that should have one, or what to do with one that needs none."""
        packet = getattr(func, "_overloadpacket", func)
        found = flop_counter.flop_registry.get(packet)
        if found is not None:
            return found
        name = str(getattr(packet, "_qualified_op_name", packet))
        if "c10d" in name:
            raise GaveUp("the model communicates in its forward pass (" + name + ")")
        ours = FORMULAS.get(name)
        if ours is not None:
            return flop_counter.shape_wrapper(ours)
        if _is_composite(func):
            return _PARTS
        return name if looks_like_matmul(name) else _FREE


def _asks_metadata(func: Any) -> bool:
    """Whether an operation only asks a tensor for its size, layout or device: an error there would end the process."""
    global _metadata  # noqa: PLW0603 - filled at the first call, by the names that this torch has
    if _metadata is None:
        aten, prim = torch.ops.aten, torch.ops.prim
        packets = [getattr(aten, name, None) for name in _METADATA]
        packets += [getattr(prim, name, None) for name in ("device", "layout")]
        _metadata = frozenset(
            getattr(packet, overload) for packet in packets if packet is not None for overload in packet.overloads()
        )
    return func in _metadata


_METADATA = (
    *("size", "sym_size", "stride", "sym_stride", "storage_offset", "sym_storage_offset", "numel", "sym_numel", "dim"),
    *("is_contiguous", "sym_is_contiguous", "is_strides_like_format", "is_non_overlapping_and_dense"),
)
_metadata: frozenset[Any] | None = None


def _is_composite(func: Any) -> bool:
    has_kernel = getattr(func, "has_kernel_for_dispatch_key", None)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001 - as torch's own counter asks
    return has_kernel is not None and bool(has_kernel(composite))


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        # Not Linux: only the time is bounded.
        return 0
