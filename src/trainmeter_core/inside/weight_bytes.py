"""The bytes of a model's weights: what a micro-batch reads of them, and what a step's gradients and updates take.

Sizes and dtypes only, never data; of a weight shared by several modules, the first use of each kind counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .describe_config import attribute

if TYPE_CHECKING:
    from typing import Iterable

READ_WHOLE = ("linear", "conv1d_hf", "conv", "mha", "rnn", "norm")
"""Kinds of modules whose every call reads all their weights; a table's reads some of its rows."""
MATRIX, STACKED = 2, 3


class WeightBytes:
    """Sums over the parameters of a model, each added once for every module that has it."""

    def __init__(self, root: Any, modules: Iterable[Any]) -> None:
        self.gathered = next(filter(None, map(_gathered_in, (root, *modules))), None)
        """The dtype in which sharded weights come together for a computation, where that is not their own."""
        self.shards = _flat_shards(root)
        self.forward: dict[str, int] = {}
        self.backward: dict[str, int] = {}
        self.gradients = self.trained = 0
        self.unknown = False
        self._seen: dict[str, set[int]] = {"forward": set(), "backward": set(), "trained": set()}

    def add(self, p: Any, elements: int, *, read: bool, again: bool, trained: bool) -> None:
        """Add a parameter of so many elements, all ranks' together: what one of its modules does with it.

        read: its forward reads all of it; again: so does its backward; trained: an optimizer moves it.
        """
        here = getattr(p, "_local_tensor", p)  # a DTensor's share
        if hasattr(here, "__tensor_flatten__"):
            self.unknown = True  # a format of its own, whose dtype is not the one it is stored in
            return
        width, used = int(here.element_size()), here.dtype
        packed = not here.is_floating_point()  # several weights in one element, and only some ranks' where sharded
        if self.gathered is not None and not packed and self.gathered.itemsize < width:
            used = self.gathered
        size = int(here.numel()) * width if packed else elements * used.itemsize
        name = str(used).rpartition(".")[2]
        if read and self._first("forward", p):
            self.forward[name] = self.forward.get(name, 0) + size
        if read and again and self._first("backward", p):
            self.backward[name] = self.backward.get(name, 0) + size
        if trained and self._first("trained", p):
            self.gradients += size
            self.trained += self._own(p, here, elements) * width

    def _first(self, use: str, p: Any) -> bool:
        seen = self._seen[use]
        if id(p) in seen:
            return False
        seen.add(id(p))
        return True

    def _own(self, p: Any, here: Any, elements: int) -> int:
        """Elements that this rank's optimizer updates: its own share of a sharded parameter."""
        part = getattr(p, "ds_tensor", None)  # DeepSpeed ZeRO-3's
        if part is not None:
            return min(elements, int(part.numel()))
        return int(here.numel()) if here is not p else elements // self.shards

    def table(self) -> dict[str, Any] | None:
        """What a description has as `bytes`; None where a weight's format is not known."""
        if self.unknown:
            return None
        told = {"forward": self.forward, "backward": self.backward}
        return {**told, "gradients": self.gradients, "trained": self.trained}


def reads_whole(kind: str, module: Any, key: str, size: tuple[int, ...]) -> bool:
    """Whether a call of the module reads all of this parameter; False where its use is not known."""
    if kind != "other":
        return kind in READ_WHOLE
    is_experts = len(size) == STACKED and min(size) > 1
    is_matrix = key == "weight" and len(size) == MATRIX
    return (is_experts or is_matrix) and "Embedding" not in type(module).__name__


def _gathered_in(module: Any) -> Any:
    """The dtype that fully_shard or FullyShardedDataParallel casts a module's weights to, or None."""
    policy = attribute(module, "mixed_precision")
    state = attribute(module, "_get_fsdp_state")
    if policy is None and callable(state):
        try:
            policy = attribute(state(), "_mp_policy")
        except ValueError:  # torch says so of a module whose state went with a copy
            return None
    dtype = attribute(policy, "param_dtype")
    return dtype if isinstance(attribute(dtype, "itemsize"), int) else None


def _flat_shards(root: Any) -> int:
    """Ranks among which FullyShardedDataParallel divides its flat parameters; 1 for any other model."""
    ranks = attribute(root, "world_size") if type(root).__name__ == "FullyShardedDataParallel" else None
    return ranks if isinstance(ranks, int) and ranks > 1 else 1
