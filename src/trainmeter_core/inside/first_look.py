"""What the first training call of a model shows: how many positions each module works at, and on which gradients.

Looked at while the model is sought, when every module's call passes through `nn.Module.__call__` of ours anyway; no
hook, no tensor is kept, no device is waited for. Calls inside a compiled graph are not seen.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .autograd_graph import is_triangular, products_in
from .batch_shape import time_first
from .describe import kind_of

if TYPE_CHECKING:
    from typing import Any

    from .batch_shape import Shape

_MOST_SIZES = 32


class SeenCalls:
    """The calls of one module.

    positions: rows that its weight was multiplied with, over the whole batch; keys: of an attention's keys.
    grad: whether autograd needs the input's gradient; None where gradients were off, which a recomputation may do.
    causal: of an attention, None where its mask does not tell.
    """

    __slots__ = ("causal", "grad", "keys", "positions")

    def __init__(self) -> None:
        self.positions = self.keys = 0
        self.grad: bool | None = None
        self.causal: bool | None = None


class FirstLook:
    """One call of a root: what its modules were given, and afterwards what autograd has recorded."""

    def __init__(self, shape: Shape, sizes: Any) -> None:
        self.shape = shape
        self.sizes = sizes
        self.sizes_vary = False
        self.time_first = False
        """Whether the token ids turned out to be (T, B): a layer that wants time first was given them as they are."""
        self.done = False
        self.seen: dict[int, SeenCalls] = {}
        self.linear_calls = 0
        self.products: dict[str, Any] | None = None
        self.reached: dict[int, int] = {}
        """By the ids of the parameters that the output depends on: the edges that lead there in its graph."""
        self._kinds: dict[type, str] = {}
        self._grad_enabled = sys.modules["torch"].is_grad_enabled

    def see(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note one call of a module inside the root."""
        cls = type(module)
        kind = self._kinds.get(cls)
        if kind is None:
            kind = self._kinds[cls] = kind_of(cls)
        if kind not in _POSITIONS:
            return
        given: Any = args[0] if args else next(iter(kwargs.values()), None)
        if kind in _TIME_FIRST and not self.time_first and getattr(module, "batch_first", None) is False:
            self._order(given)
        seen = self._calls_of(module)
        rows = _POSITIONS[kind](module, given, result)
        seen.positions += rows
        grad_enabled = self._grad_enabled()
        if grad_enabled:
            seen.grad = bool(seen.grad) or bool(getattr(given, "requires_grad", False))
        if kind == "mha":
            keys: Any = args[1] if len(args) > 1 else kwargs.get("key", given)
            seen.keys += keys.numel() // keys.shape[-1]
            is_whole = rows == self.shape[0] * given.shape[-2 if module.batch_first else 0]
            seen.causal = _causal(args, kwargs) if is_whole else None  # else windows, as sequences of their own
            self._calls_of(module.out_proj).positions += rows  # a weight that is used without a call
        if grad_enabled and kind in _PRODUCTS:
            self.linear_calls += _PRODUCTS[kind]

    def _order(self, given: Any) -> None:
        """Compare the token ids with the (T, B, width) that a layer was given of them."""
        first, second, _ = self.shape
        dims: Any = getattr(given, "shape", ())
        if first != second and len(dims) == 3 and tuple(dims[:2]) == (first, second):  # noqa: PLR2004 - (T, B, d)
            self.time_first, self.shape = True, time_first(self.shape)

    def _calls_of(self, module: Any) -> SeenCalls:
        seen = self.seen.get(id(module))
        if seen is None:
            seen = self.seen[id(module)] = SeenCalls()
        return seen

    def returned(self, result: Any) -> None:
        """The root returned: read the products of activations off the graph that autograd has recorded."""
        self.products = products_in(result)
        if self.products is not None:
            self.reached = self.products.pop("reached")
        self.done = True

    def facts(self) -> dict[str, Any]:
        """What a description has as `look`."""
        samples, length, target = self.shape
        return {
            "samples": samples,
            "length": length,
            "target": target,
            "sizes_vary": self.sizes_vary,
            "linear_calls": self.linear_calls,
            **(self.products or {}),
        }

    def per_sample(self, module: Any) -> dict[str, Any]:
        """What an entry of a description has of the module's calls: rows per sample, None where they are not equal."""
        seen, samples = self.seen.get(id(module)), self.shape[0]
        if seen is None or not samples:
            return {}
        found: dict[str, Any] = {"positions": None if seen.positions % samples else seen.positions // samples}
        if seen.keys:
            found["key_positions"] = None if seen.keys % samples else seen.keys // samples
            found["causal"] = seen.causal
        return found

    def input_grad(self, module: Any) -> bool | None:
        """Whether the module's input had a gradient; None where that was not seen."""
        seen = self.seen.get(id(module))
        return None if seen is None else seen.grad

    def unread(self, parameters: Any) -> set[int]:
        """Ids of the trainable parameters that the output does not depend on; none where the graph hides some.

        Most are reached unless the graph has others in their place, as a sharded model's.
        """
        if self.products is None or self.products["opaque"]:
            return set()
        sizes = {id(p): p.numel() for p in parameters if p.requires_grad}
        left = {key for key in sizes if key not in self.reached}
        return left if 2 * sum(sizes[key] for key in left) < sum(sizes.values()) else set()


def sizes_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sizes of one sample in each tensor of a call: what positions depend on beside the number of samples."""
    found = []
    for value in (*args, *kwargs.values())[:_MOST_SIZES]:
        dims = getattr(value, "shape", None)
        if dims is not None:
            found.append(tuple(dims[1:]))
        elif isinstance(value, (list, tuple)):
            found.append(tuple(tuple(getattr(each, "shape", ())) for each in value[:_MOST_SIZES]))
    return found


def _conv(module: Any, given: Any, result: Any) -> int:
    """The output positions of a convolution, the input's of a transposed one."""
    dims = len(module.kernel_size)
    of = given if module.transposed else result
    positions = int(of.shape[0]) if of.dim() == dims + 2 else 1
    for n in of.shape[-dims:]:
        positions *= int(n)
    return positions


def _rows(_module: Any, given: Any, _result: Any) -> int:
    return int(given.numel() // given.shape[-1])


def _recurrent(_module: Any, given: Any, _result: Any) -> int:
    rows = getattr(given, "batch_sizes", None)  # a packed sequence keeps its real positions in `data`
    return int(given.data.shape[0]) if rows is not None else int(given.numel() // given.shape[-1])


_POSITIONS = {"conv": _conv, "linear": _rows, "conv1d_hf": _rows, "mha": _rows, "rnn": _recurrent}
_TIME_FIRST = ("mha", "rnn")
# Matrix products that one call makes at most: torch's attention projects q, k, v and its output by itself.
_PRODUCTS = {"linear": 1, "conv1d_hf": 1, "mha": 4}


def _causal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """What the arguments of an nn.MultiheadAttention say of its mask."""
    mask = args[5] if len(args) > 5 else kwargs.get("attn_mask")  # noqa: PLR2004 - its place in the signature
    if mask is None:
        return False
    if kwargs.get("is_causal") is True:
        return True
    return is_triangular(mask)
