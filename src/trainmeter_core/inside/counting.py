"""When a training pass is counted: once, at the end of the first step, on rank 0, where `tm --count` asked for it.

The first step's time is start-up time anyway, so that no rate of the run has the seconds that counting takes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Any


def remembered(args: tuple[Any, ...], kwargs: dict[str, Any], shape: Shape, autocast: str) -> Any:
    """A model call as shapes alone, or the reason why it cannot be kept as such, as text."""
    from .counted import Call, NotSeen, facts_of

    dtype = getattr(sys.modules["torch"], autocast) if autocast else None
    try:
        facts = [facts_of(value) for value in args]
        named = {name: facts_of(value) for name, value in kwargs.items()}
    except NotSeen as why:
        return str(why)
    return Call(facts, named, shape, dtype)


def count_once(agent: Agent, model: Any, call: Any) -> None:
    """Count the remembered call, and tell the run log and the meter."""
    from ..flops.counted import counted_from
    from .counted import Counted, count

    agent.counting = False
    agent.paused = True
    try:
        found = Counted(None, {}, 0.0, call) if isinstance(call, str) else count(model, call)
    finally:
        agent.paused = False
    event = {
        "counts": [] if found.flops is None else [[*call.batch, found.flops]],
        "gaps": [f"{name} ({times} times)" for name, times in sorted(found.gaps.items())],
        "seconds": found.seconds,
        "absent": found.absent,
    }
    agent.event("counted", event)
    agent.publish().counted(counted_from(event))
