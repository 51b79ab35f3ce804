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


def count_once(agent: Agent, model: Any, calls: list[Any], *, sizes_vary: bool) -> None:
    """Count the remembered calls, one of each shape, in the time of one; and tell the run log and the meter."""
    from ..flops.counted import counted_from
    from .counted import LIMIT_S, Counted, count

    agent.counting = False
    agent.paused = True
    agent.step.leader = 0
    counts: list[list[int]] = []
    gaps: dict[str, int] = {}
    seconds, absent = 0.0, SIZES_VARY if sizes_vary else ""
    try:
        for call in [] if sizes_vary else calls:
            found = Counted(None, {}, 0.0, call) if isinstance(call, str) else count(model, call, LIMIT_S - seconds)
            seconds += found.seconds
            gaps = {name: max(gaps.get(name, 0), found.gaps.get(name, 0)) for name in {**gaps, **found.gaps}}
            if found.flops is None:
                absent = found.absent
                break
            counts.append([*call.batch, found.flops])
    finally:
        agent.paused = False
    event = {
        "counts": counts,
        "gaps": [f"{name} ({times} times)" for name, times in sorted(gaps.items())],
        "seconds": seconds,
        "absent": "" if counts else absent,
    }
    agent.event("counted", event)
    agent.publish().counted(counted_from(event))


def sizes_changed(agent: Agent) -> None:
    """Take a count back: the model is given inputs of other sizes, and a batch does not tell which."""
    from ..flops.counted import counted_from

    event = agent.told.get("counted")
    if event is not None:
        fields = {**event, "counts": [], "absent": SIZES_VARY}
        told = {name: fields[name] for name in ("counts", "gaps", "seconds", "absent")}
        agent.event("counted", told)
        agent.publish().counted(counted_from(told))


MOST_SHAPES = 4
SIZES_VARY = "the model's inputs change their size, which a batch does not tell"
