"""Reads the goal of a run from the framework that drives it: once, when its training loop begins."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ...meter import Budget
from ..guard import site

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable, Tuple

    Read = Callable[..., Tuple[float, str]]

_SITE = site("framework budget")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap the one method in which the framework's own loop begins."""
    read: Read
    if module.__name__.startswith("transformers"):
        kind, name, read = module.CallbackHandler, "on_train_begin", _of_transformers
    else:
        kind, name, read = module._FitLoop, "on_run_start", _of_lightning  # noqa: SLF001 - no public place tells it
    original = vars(kind)[name]
    setattr(kind, name, _told(original, read, agent))

    def undo() -> None:
        setattr(kind, name, original)

    return undo


def _told(original: Callable[..., Any], read: Read, agent: Agent) -> Callable[..., Any]:
    @functools.wraps(original)
    def begins(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _SITE.on:
            with _SITE:
                steps, source = read(self, *args, **kwargs)
                if 0 < steps < math.inf:
                    agent.event("budget", {"budget_steps": int(steps), "budget_source": source})
                    agent.publish().budget_found(Budget("steps", float(int(steps))))
        return original(self, *args, **kwargs)

    return begins


def _of_transformers(_handler: Any, args: Any, state: Any, *_: Any, **__: Any) -> tuple[float, str]:
    """The Trainer has worked out its steps by now; those that a checkpoint had made are not made again."""
    name = "max_steps" if args.max_steps > 0 else "num_train_epochs"
    return state.max_steps - state.global_step, "transformers.TrainingArguments: " + name


def _of_lightning(loop: Any) -> tuple[float, str]:
    """The earlier of max_steps and max_epochs; the loaders' length is known by now, or there is none."""
    trainer = loop.trainer
    ends = []
    if trainer.max_steps > 0:
        ends.append((trainer.max_steps - trainer.global_step, "lightning.Trainer: max_steps"))
    if trainer.max_epochs is not None and trainer.max_epochs > 0:
        steps = trainer.num_training_batches / max(1, trainer.accumulate_grad_batches)
        epochs = trainer.max_epochs - trainer.current_epoch
        whole = steps if math.isinf(steps) else math.ceil(steps)
        ends.append((whole * epochs, "lightning.Trainer: max_epochs"))
    return min(ends, default=(math.inf, ""))
