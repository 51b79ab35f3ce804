"""All areas of `tm doctor` in order, each alone: one that fails is a line of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import gpus, node, trainer
from .line import Line

if TYPE_CHECKING:
    from collections.abc import Callable


def examine(python: str, environ: dict[str, str] | None = None) -> list[Line]:
    """Look at this node and at `python`; `environ` is what a run would be started with."""
    env = dict(os.environ) if environ is None else environ
    areas: dict[str, Callable[[], list[Line]]] = {
        "tm": trainer.own,
        "gpu": lambda: gpus.lines(env),
        "python": lambda: trainer.lines(python, env),
        "node": node.lines,
    }
    found: list[Line] = []
    for area, look in areas.items():
        try:
            found += look()
        except Exception as error:  # noqa: BLE001 - whatever is odd on this machine is one line, not the end
            found.append(Line(area, "examination", "problem", f"{type(error).__name__}: {error}", _REPORT))
    return found


_REPORT = "please report it with the output of tm doctor --dump node.tar.gz"
