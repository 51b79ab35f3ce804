"""How many of the forwards that wait belong to a backward: the others' outputs no loss has used.

A policy that acts with gradients on makes forwards that train nothing. Each forward behind a loss leaves an edge of its
own to a parameter that a forward uses once; where several forwards wait, their number is read off the graph, until it
has been the same a few times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .autograd_graph import edges_to_leaves

if TYPE_CHECKING:
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any, Collection

_SURE_AFTER = 8
# Of one program: some tenths of a second. From then on all count where it was not the same a few times.
_MOST_NODES = 500_000
_MOST_COUNTS = 256


class UsedForwards:
    """For one model; `once` are ids of parameters that its first training call used once."""

    __slots__ = ("_known", "_nodes_left", "once")

    def __init__(self, once: Collection[int] = ()) -> None:
        self.once = once
        self._nodes_left = _MOST_NODES
        self._known: dict[int, tuple[int, int]] = {}
        """By how many waited: how many of them were used, and how often that was read."""

    def of(self, tensors: Any, waiting: int) -> int:
        """Give how many of so many forwards are behind these tensors: all of them where the graph does not tell."""
        if not self.once:
            return waiting
        used, times = self._known.get(waiting, (waiting, 0))
        if times >= _SURE_AFTER:
            return used
        if self._nodes_left <= 0 or len(self._known) > _MOST_COUNTS:
            return waiting
        edges, nodes = edges_to_leaves(tensors)
        self._nodes_left -= nodes
        found = min(waiting, used_in(edges, self.once)) if edges is not None else waiting
        self._known[waiting] = found, times + 1 if found == used else 1
        return found


def take_used(waiting: list[Shape], used: int, batches: dict[Shape, int]) -> None:
    """Make the newest of the forwards that wait micro-batches; the others wait on, for a backward of their own."""
    kept = len(waiting) - used
    for shape in waiting[kept:]:
        batches[shape] = batches.get(shape, 0) + 1
    del waiting[kept:]


def used_in(edges: dict[int, int], once: Collection[int]) -> int:
    """Give how many forwards have left these edges.

    Not every forward need use every parameter (experts); one that it uses more often than it did is no harm either,
    for there are no more forwards than wait.
    """
    return max((many for leaf, many in edges.items() if leaf in once), default=0)
