"""What the client prints at a run's end: the first ten series by name, which must be the user's own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from trainmeter_core.series import PREFIX

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

METHOD = "_footer_history_summary_info"


def tapped(cls: type, agent: AgentFace, active: list[bool]) -> staticmethod[..., Any] | None:
    """Give the class's static method with our series kept from it; None for a client that prints in another way."""
    original = cls.__dict__.get(METHOD)
    if not isinstance(original, staticmethod):
        return None
    plain: Callable[..., Any] = original.__func__

    @functools.wraps(plain)
    def footer(history: Any = None, summary: Any = None, *args: Any, **kwargs: Any) -> Any:
        if active:
            with agent.guard("wandb.footer"):
                history, summary = _without_ours(history), _without_ours(summary)
        return plain(history, summary, *args, **kwargs)

    return staticmethod(footer)


def _without_ours(told: Any) -> Any:
    """A copy of the client's answer without our items; None stays None."""
    if not told:
        return told
    kept = type(told)()
    kept.item.extend(item for item in told.item if not _name(item).startswith(PREFIX))
    return kept


def _name(item: Any) -> str:
    nested = getattr(item, "nested_key", ())
    return str(nested[0]) + "/" if nested else str(item.key)
