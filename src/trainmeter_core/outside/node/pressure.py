"""Pressure stall information: the share of time tasks stood still for want of a core, I/O or memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rates import Rates, put

if TYPE_CHECKING:
    from .tree import Tree

# `full` of cpu means nothing for a whole system.
_WANTED = {"cpu": ("some",), "io": ("some", "full"), "memory": ("some", "full")}
_US = 1e-6


class Pressure:
    """Exact shares from the kernel's running totals, not its 10-second means."""

    series = ("node/psi_",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        for resource, kinds in _WANTED.items():
            text = self._tree.maybe("proc/pressure", resource)
            if text is None:
                reason = "the kernel keeps no pressure information (before Linux 4.20, or psi=0)"
                self.missing.update((f"node/psi_{resource}_{kind}_pct", reason) for kind in kinds)
                continue
            totals = {line.split()[0]: int(line.rpartition("total=")[2]) for line in text.splitlines()}
            for kind in kinds:
                if kind in totals:
                    name = f"node/psi_{resource}_{kind}_pct"
                    put(values, name, self._rates.busy_pct(name, totals[kind] * _US, now))
        return values
