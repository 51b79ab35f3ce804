"""Sees every optimizer step, through torch's own global step hooks, and every optimizer that is made."""

from __future__ import annotations

import functools
import threading
from _thread import get_ident
from typing import TYPE_CHECKING

from ..guard import site
from ..span_clock import STEP
from ..step_under_way import RECORDS_DUE, UNUSUAL
from . import backward, model_calls

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_SITE = site("optimizer")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Register the pre- and post-hook for all optimizers of `torch.optim.optimizer`."""
    in_graph = agent.in_graph
    step = agent.step

    def in_a_gradients_hook() -> bool:
        # Below a backward, or on one of the engine's own threads, of which threading knows nothing.
        return backward.below_one() or get_ident() not in threading._active  # type: ignore[attr-defined]  # noqa: SLF001

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not model_calls.compiling() and _SITE.on and not (step.in_backward and in_a_gradients_hook()):
            try:
                if step.leader == id(optimizer) and not step.in_optimizer and step.base == STEP:
                    step.in_optimizer = 1
                    step.optimizer = id(optimizer)
                    step.backwards_at_enter = step.backwards
                else:
                    agent.optimizer_enters(optimizer)
            except Exception as error:  # noqa: BLE001 - a hook that raises would end the user's training
                _SITE.failed(error)

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if model_calls.compiling():
            # Becomes part of the graph and happens whenever that runs, without a break in it.
            in_graph.stepped = optimizer
        elif step.in_backward and in_a_gradients_hook():
            # One step with all others of this backward, and it ends with that.
            if in_graph.stepped is None or agent.counter.leads(id(optimizer)):
                in_graph.stepped = optimizer
        elif _SITE.on:
            try:
                ended = step.ends_as_usual(id(optimizer))
                if ended == UNUSUAL:
                    agent.optimizer_leaves(optimizer)
                elif ended == RECORDS_DUE:
                    agent.usual_steps_ended(step.last)
            except Exception as error:  # noqa: BLE001 - as above
                _SITE.failed(error)

    original = module.Optimizer.__init__

    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _SITE.on:
            try:
                agent.optimizer_made(self)
            except Exception as error:  # noqa: BLE001 - as above
                _SITE.failed(error)

    module.Optimizer.__init__ = made
    handles = [module.register_optimizer_step_pre_hook(before), module.register_optimizer_step_post_hook(after)]

    def undo() -> None:
        for handle in handles:
            handle.remove()
        if module.Optimizer.__init__ is made:
            module.Optimizer.__init__ = original

    return undo
