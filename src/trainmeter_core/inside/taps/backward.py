"""Sees every backward, below the point where torch.compile breaks graphs: at the call into the autograd engine."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from .. import span_clock
from ..guard import site, unseen

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_SITE = site("backward")
_NAME = "_engine_run_backward"
_OTHERS = {"megatron.core.pipeline_parallel.schedules": "custom_backward"}
"""Functions that call the engine past torch's own, by the module that has them."""

_codes: set[Any] = set()
"""Of the function that runs a backward."""


def below_one() -> bool:
    """Say whether this thread is in a hook of a gradient: whether a backward is on its stack."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - inspect.currentframe, of which it is all
    while frame is not None:
        if frame.f_code in _codes:
            return True
        frame = frame.f_back
    return False


def _step_in_graph(agent: Agent) -> None:
    """The optimizer's step before this backward ran in a compiled graph; the time from here on is the next step's."""
    with _SITE:
        agent.stepped_in_graph()
        agent.step.set_base(span_clock.STEP)


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the engine call in `torch.autograd`, and in `torch.autograd.graph` where it is defined; or Megatron's."""
    name = _OTHERS.get(module.__name__, _NAME)
    places = [place for place in (module, getattr(module, "graph", None)) if hasattr(place, name)]
    original = getattr(module, name)
    in_graph = agent.in_graph
    step = agent.step

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if not _SITE.on:
            return original(*args, **kwargs)
        if in_graph.stepped is not None:
            _step_in_graph(agent)
        outermost = not step.in_backward
        step.in_backward = True
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if outermost:
                step.in_backward = False
            try:
                if step.leader and step.waiting == 1:
                    step.waiting = 0
                    step.calls += 1
                    step.backwards += 1
                else:
                    agent.backward_ran(args[:1])
                if outermost and in_graph.stepped is not None:
                    agent.stepped_in_graph()
            except Exception as error:  # noqa: BLE001 - anything of ours
                _SITE.failed(error)

    _codes.add(run_backward.__code__)  # type: ignore[attr-defined]
    for place in places:
        setattr(place, name, run_backward)

    def undo() -> None:
        for place in places:
            setattr(place, name, original)

    return undo
