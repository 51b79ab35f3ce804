"""Sees every backward, below the point where torch.compile breaks graphs: at the call into the autograd engine."""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from .. import span_clock
from ..guard import site, unseen

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_SITE = site("backward")
_NAME = "_engine_run_backward"


def _step_in_graph(agent: Agent) -> None:
    """The optimizer's step before this backward ran in a compiled graph; the time from here on is the next step's."""
    with _SITE:
        agent.stepped_in_graph()
        agent.step.set_base(span_clock.STEP)


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the engine call in `torch.autograd`, and in `torch.autograd.graph` where it is defined."""
    places = [place for place in (module, module.graph) if hasattr(place, _NAME)]
    original = getattr(module, _NAME)
    in_graph = agent.in_graph
    step = agent.step

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if not _SITE.on:
            return original(*args, **kwargs)
        if in_graph.stepped is not None:
            _step_in_graph(agent)
        outermost = not step.in_backward
        if outermost:
            step.in_backward = get_ident()
        start = monotonic()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if outermost:
                step.in_backward = 0
            try:
                pending = step.pending
                if step.leader and len(pending) == 1 and pending[0] == step.shape:
                    step.backward_s += monotonic() - start
                    step.backward_since = True
                    step.calls += 1
                    pending.clear()
                else:
                    agent.backward_ran(monotonic() - start)
                if outermost and in_graph.stepped is not None:
                    agent.stepped_in_graph()
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)

    for place in places:
        setattr(place, _NAME, run_backward)

    def undo() -> None:
        for place in places:
            setattr(place, _NAME, original)

    return undo
