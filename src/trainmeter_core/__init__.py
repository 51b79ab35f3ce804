"""trainmeter: where training FLOPs go and how well GPUs are used, published into the tracker already in use."""

from __future__ import annotations

from .emitting import emit
from .version import __version__

MYPY = False
if MYPY:
    from typing import Any

__all__ = ["__version__", "emit", "start", "stop"]


def start(**options: Any) -> str | None:
    """Measure this process from now on, where `tm` cannot be put in front of it; see `starting.start`."""
    from .starting import start as start_now

    return start_now(**options)


def stop() -> None:
    """End what `start` began; otherwise it ends with the process."""
    from .starting import stop as stop_now

    stop_now()


def load_ipython_extension(_shell: object) -> None:
    """``%load_ext trainmeter_core`` measures the notebook's process from then on."""
    start()


def unload_ipython_extension(_shell: object) -> None:
    """``%unload_ext trainmeter_core`` writes the passport."""
    stop()
