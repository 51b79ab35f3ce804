"""What the model tap puts in place of `__call__`: while torch.compile traces it, it is the user's call and no more.

With the optimizer's hooks, the only functions of ours that may become part of a graph.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from ...ring_format import PHASE
from ..guard import site, unseen
from ..span_clock import EVAL, STEP

if TYPE_CHECKING:
    from ..agent import Agent
    from ..batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any, Callable, Sequence

_SITE = site("model call")


def noting_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`nn.Module.__call__` while the model is sought.

    A function without a closure: a graph compiled through it holds no guard that fails when it is gone.
    """
    if compiling():
        return module_call(self, *args, **kwargs)
    step, inside, me = noting.agent.step, noting.inside, get_ident()
    mine = me == step.thread
    if me in inside or (step.in_model and (mine or noting.agent.paused)) or "_is_replica" in self.__dict__:
        look = inside.get(me)
        if look is None:
            return module_call(self, *args, **kwargs)
        result = module_call(self, *args, **kwargs)
        noting.see(look, self, args, kwargs, result)
        return result
    if not mine and not noting.any_thread:
        return module_call(self, *args, **kwargs)
    inside[me] = None
    if mine:
        step.in_model = True
    try:
        if _SITE.on:
            inside[me] = noting.note(self, args, kwargs)
        result = module_call(self, *args, **kwargs)
        if inside.get(me) is not None:
            noting.returned(inside[me], result)
        return result
    except BaseException as error:
        unseen(error)
        raise
    finally:
        inside.pop(me, None)
        if mine:
            step.in_model = False


noting: Any = None
module_call: Any = None


def tapped_call(
    kind: Any, own: Callable[..., Any] | None, ids: Sequence[int], agent: Agent, shape_of: Callable[..., Shape | None]
) -> Callable[..., Any]:
    """Make the `__call__` of a root's class; without one of its own it goes on inheriting, whatever is patched.

    ``ids``: of the root, and of what it wraps. ``shape_of`` reads the batch off a call's arguments.
    """
    root, inner = ids[0], frozenset(ids[1:])
    step, in_graph = agent.step, agent.in_graph
    # Where these objects' own class inherits its call from; an object of a class below it may inherit another.
    inherited = next(base for base in kind.__mro__[1:] if "__call__" in vars(base))
    # The last batch of one tensor, and what was read off it.
    tensor, size, dtype, of_size = sys.modules["torch"].Tensor, None, None, None

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it takes that method's place
        if compiling() or step.in_model or (id(self) != root and id(self) not in inner):
            return super(kind, self).__call__(*args, **kwargs) if own is None else own(self, *args, **kwargs)
        if get_ident() != step.thread and not agent.trains_here_now():
            return super(kind, self).__call__(*args, **kwargs) if own is None else own(self, *args, **kwargs)
        nonlocal size, dtype, of_size
        shape = None
        if _SITE.on:
            try:
                if in_graph.stepped is not None:
                    agent.stepped_in_graph()
                if self.training and grad_enabled():
                    if step.base != STEP:
                        if step.current == step.base:
                            # `step.set_base`, written out: a call of ours less.
                            now = monotonic()
                            step.seconds[step.current] += now - step.last
                            step.last = now
                            step.current = step.page[PHASE] = STEP
                        step.base = STEP
                    first: Any = args[0] if len(args) == 1 and not kwargs else None
                    if type(first) is tensor and first.shape == size and first.dtype is dtype:
                        shape = of_size
                    else:
                        shape = shape_of(args, kwargs)
                        if type(first) is tensor:
                            size, dtype, of_size = first.shape, first.dtype, shape
                    if shape is not None:
                        if step.leader and (shape is step.shape or shape == step.shape):
                            step.waiting += 1
                            step.shape = shape
                        else:
                            step.other_forward(shape)
                elif step.base != EVAL:
                    step.set_base(EVAL)
            except Exception as error:  # noqa: BLE001 - arguments may be anything
                _SITE.failed(error)
        step.in_model = True
        try:
            return inherited.__call__(self, *args, **kwargs) if own is None else own(self, *args, **kwargs)
        except BaseException as error:
            if shape is not None:
                step.forward_raised(shape)
            unseen(error)
            raise
        finally:
            step.in_model = False

    return __call__ if own is None else functools.wraps(own)(__call__)


def watched_call(call: Callable[..., Any], root: int, tap: Any) -> Callable[..., Any]:
    """`call` for a model whose FLOPs depend on the sizes of its inputs; `tap` is told once when these change."""

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it takes that method's place
        if not compiling() and tap.sizes is not None and id(self) == root and self.training and grad_enabled():
            tap.check_sizes(args, kwargs)
        return call(self, *args, **kwargs)

    return functools.wraps(call)(__call__)


def ask_torch() -> bool:
    # Inference mode turns gradients off as well.
    enabled: bool = sys.modules["torch"].is_grad_enabled()
    return enabled


# Replaced by torch's own function once torch is whole: a call of ours less at each of the model's.
grad_enabled: Callable[[], bool] = ask_torch


def never_compiling() -> bool:
    return False


# Replaced by torch.compiler.is_compiling once that module is there; torch.compile folds it to True while tracing.
compiling: Callable[[], bool] = never_compiling
