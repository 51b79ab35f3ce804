"""`emit`: for loops with no tracker, the user's own losses and scalars into the run."""

from __future__ import annotations

import sys

MYPY = False
if MYPY:
    from typing import Any

# There when `tm` started this process; looked up and never imported, so that outside of tm nothing is loaded.
_AGENT = "trainmeter_core.inside.bootstrap"


def emit(*_: object, step: Any = None, **scalars: Any) -> None:
    """Record numbers of this step of the run: ``emit(train_loss=2.31, lr=3e-4, step=100)``.

    A name that contains "loss" gets its first, last and lowest value into the passport. In a run without a tracker all
    of them stand in its TensorBoard files, at ``step`` (without one, at the optimizer steps made so far). In a run of
    several ranks the files get rank 0's.

    Outside of `tm` it does nothing, and it never raises: what is not a number is left out. A tensor on an accelerator
    is waited for, as by its own ``item()``.
    """
    if _AGENT in sys.modules:
        from .inside.emitted import record

        record(scalars, step)
