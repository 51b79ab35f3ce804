"""Sees how long the training thread is blocked in a data loader's next."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...ring_format import FLAG_LOADER_SEEN
from .. import span_clock
from ..guard import site, unseen

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
    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        outer = span_clock.ELSEWHERE
        if _SITE.on:
            try:
                agent.loader_flag = FLAG_LOADER_SEEN
                outer = agent.clock.enter(span_clock.DATA_WAIT)
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)
        try:
            return original(self)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if outer != span_clock.ELSEWHERE:
                try:
                    agent.clock.leave(outer)
                except Exception as error:  # noqa: BLE001 - as above
                    _SITE.failed(error)

    return __next__
