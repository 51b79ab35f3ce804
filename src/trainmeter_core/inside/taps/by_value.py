"""Gives classes back as they were while a pickler that writes classes out whole (cloudpickle, dill) is at work.

Such a pickler sends a class of `__main__` to another process with everything in it: a tap there would go along, and
neither it nor what it refers to can be sent.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..guard import site, unseen

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_SITE = site("pickler")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Wrap `Pickler.dump` of the module."""
    pickler = module.Pickler
    original = pickler.dump

    @functools.wraps(original)
    def dump(self: Any, *args: Any, **kwargs: Any) -> Any:
        lifted: Any = ()
        model = agent.model
        if _SITE.on and model is not None:
            with _SITE:
                lifted = model.lift()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if lifted and model is not None:
                with _SITE:
                    model.put_back(lifted)

    pickler.dump = dump

    def undo() -> None:
        if pickler.dump is dump:
            pickler.dump = original

    return undo
