"""Processor time by kind and by core, and the load; /proc/stat and /proc/loadavg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rates import Rates

if TYPE_CHECKING:
    from .tree import Tree

# Columns of a cpu line. guest and guest_nice are part of user and nice already.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_KINDS: dict[str, tuple[int, ...]] = {
    "user": (_USER, _NICE),
    "system": (_SYSTEM, _IRQ, _SOFTIRQ),
    "iowait": (_IOWAIT,),
    "steal": (_STEAL,),
    "idle": (_IDLE,),
}


class Cpu:
    """Percent of all cores' time since the last sample, by kind; the kinds add up to 100."""

    series = ("node/cpu_", "node/load_", "node/runnable_tasks", "node/blocked_tasks")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        for line in self._tree.text("proc/stat").splitlines():
            label, *columns = line.split()
            if label.startswith("cpu"):
                shares = self._shares(label, [int(column) for column in columns[:8]], now)
                if not shares:
                    continue
                busy = max(0.0, 100.0 - shares["idle"] - shares["iowait"])
                if label == "cpu":
                    values["node/cpu_pct"] = busy
                    values.update((f"node/cpu_{kind}_pct", share) for kind, share in shares.items())
                else:
                    values[f"node/cpu_core_pct/{label[3:]}"] = busy
            elif label == "procs_blocked":
                values["node/blocked_tasks"] = float(columns[0])
        one, five, fifteen, tasks, *_ = self._tree.text("proc/loadavg").split()
        values["node/load_1"], values["node/load_5"], values["node/load_15"] = float(one), float(five), float(fifteen)
        values["node/runnable_tasks"] = float(tasks.partition("/")[0])
        return values

    def _shares(self, label: str, columns: list[int], now: float) -> dict[str, float]:
        columns += [0] * (8 - len(columns))  # kernels before 2.6.11 have no steal
        grown = {}
        for kind, parts in _KINDS.items():
            change = self._rates.change(f"{label} {kind}", sum(columns[part] for part in parts), now)
            # iowait and idle of a core may step back a little: the kernel says so itself.
            grown[kind] = change[0] if change else 0
        total = sum(grown.values())
        return {kind: 100.0 * ticks / total for kind, ticks in grown.items()} if total else {}
