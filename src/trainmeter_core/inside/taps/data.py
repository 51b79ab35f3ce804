"""Sees how long the training thread is blocked in a data loader's next."""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from ...ring_format import FLAG_LOADER_SEEN, PHASE
from ..guard import site, unseen
from ..span_clock import DATA_WAIT, ELSEWHERE, ON_THE_BASE

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable


_SITE = site("data loader")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap `__next__` of the loader iterators that the module itself defines."""
    wrapped: list[tuple[type, Callable[..., Any]]] = []
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and kind.__name__.endswith("BaseDataLoaderIter") and "__next__" in vars(kind):
            wrapped.append((kind, vars(kind)["__next__"]))
            setattr(kind, "__next__", _timed(vars(kind)["__next__"], agent))  # noqa: B010 - mypy refuses the assignment

    def undo() -> None:
        for kind, original in wrapped:
            setattr(kind, "__next__", original)  # noqa: B010 - as above

    return undo


def _timed(original: Callable[..., Any], agent: Agent) -> Callable[..., Any]:
    step = agent.step

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        # `step.enter` and `step.leave`, written out: a call of ours less at each end.
        outer = ELSEWHERE
        if _SITE.on:
            try:
                if get_ident() == step.thread:
                    step.loader_flag = FLAG_LOADER_SEEN
                    now = monotonic()
                    outer = step.current
                    step.seconds[outer] += now - step.last
                    step.last = now
                    step.current = step.page[PHASE] = DATA_WAIT
                    if outer == step.base:
                        outer = ON_THE_BASE
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)
        try:
            return original(self)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if outer != ELSEWHERE:
                try:
                    now = monotonic()
                    step.seconds[step.current] += now - step.last
                    step.last = now
                    step.current = step.page[PHASE] = step.base if outer == ON_THE_BASE else outer
                except Exception as error:  # noqa: BLE001 - as above
                    _SITE.failed(error)

    return __next__
