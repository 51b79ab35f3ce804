"""An outermost module and what it was called with, before the model is known."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from ..batch_shape import time_first
from ..used_forwards import UsedForwards
from .model_search import autocast_dtype

if TYPE_CHECKING:
    from ..batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any


class Noted:
    """What is kept of one module."""

    __slots__ = ("autocast", "batches", "calls", "look", "module", "pending")

    def __init__(self, module: Any) -> None:
        self.module = ref(module)
        self.autocast = autocast_dtype(module)
        self.pending: list[Shape] = []
        self.batches: dict[Shape, int] = {}
        self.calls: dict[Shape, Any] = {}
        """One call of each shape, while they are to be counted."""
        self.look: Any = None

    def used_forwards(self) -> UsedForwards:
        """Tells of waiting forwards how many a backward used, by the call that was looked at."""
        reached, module = {} if self.look is None else self.look.reached, self.module()
        own = () if module is None else module.parameters()
        return UsedForwards({id(p) for p in own if reached.get(id(p)) == 1})

    def turn(self) -> None:
        """Take what was noted as (B, T) for (T, B)."""
        self.batches = {time_first(shape): calls for shape, calls in self.batches.items()}
        self.calls = {
            time_first(shape): call if isinstance(call, str) else call._replace(batch=time_first(shape))
            for shape, call in self.calls.items()
        }
