"""What this job's control group may use, and uses: the true denominators in a container or a batch job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cgroup_limits import Limits, read_limits
from .cgroup_paths import Hierarchy, hierarchy
from .rates import Rates, put
from .tree import table

if TYPE_CHECKING:
    from .tree import Tree

_US, _NS, _KIB = 1e-6, 1e-9, 1024
_LIMITS_EVERY_S = 10.0
# The same file in versions 1 and 2.
_MEMORY_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_MEMORY_DROPPABLE = {1: "total_inactive_file", 2: "inactive_file"}
_MEMORY_EVENTS = {1: "memory.oom_control", 2: "memory.events"}


class ControlGroup:
    """Use now and since the last sample; the share is that of the tightest limit, the group's own or one above it."""

    series = ("node/cgroup_",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rates = Rates()
        self._cpu = hierarchy(tree, "cpu")
        self._time = hierarchy(tree, "cpuacct") if self._cpu and self._cpu.version == 1 else self._cpu
        self._memory = hierarchy(tree, "memory")
        self._limits = Limits(0, {}, {})
        self._limits_read_at = float("-inf")
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        if now - self._limits_read_at >= _LIMITS_EVERY_S:
            self._limits, self._limits_read_at = read_limits(self._tree, self._cpu, self._memory), now
        values: dict[str, float] = {}
        if self._time is None:
            self.missing["node/cgroup_cpu_"] = "no control group accounts for processors"
        else:
            self._add_cpu(values, self._time, now)
        self._add_throttling(values, now)
        if self._memory is None:
            self.missing |= dict.fromkeys(("node/cgroup_mem_", "node/cgroup_oom_kills"), "no control group for memory")
        else:
            self._add_memory(values, self._memory)
        return values

    def describe(self) -> dict[str, float]:
        """Limits that exist, and what is usable: the least of the host's and all limits.

        cgroup_version (1 where both are in use) · cgroup_cpu_cores, cgroup_memory_bytes · usable_cores,
        usable_memory_bytes.
        """
        limits = read_limits(self._tree, self._cpu, self._memory)
        host_kib = table(self._tree.maybe("proc/meminfo") or "", ":").get("MemTotal")
        cores, memory = list(limits.quotas.values()), list(limits.memory.values())
        facts: dict[str, float | None] = {
            "cgroup_version": min((group.version for group in (self._cpu, self._memory) if group), default=None),
            "cgroup_cpu_cores": min(cores, default=None),
            "cgroup_memory_bytes": min(memory, default=None),
        }
        if limits.cores:
            cores.append(float(limits.cores))
        if host_kib is not None:
            memory.append(host_kib * _KIB)
        facts["usable_cores"] = min(cores, default=None)
        facts["usable_memory_bytes"] = min(memory, default=None)
        return {name: value for name, value in facts.items() if value is not None}

    def _add_cpu(self, values: dict[str, float], group: Hierarchy, now: float) -> None:
        quotas = self._limits.quotas
        levels = sorted({0, *quotas} & set(range(len(group.levels))))
        busy = {level: self._busy_cores(group.version, group.levels[level], now) for level in levels}
        shares = [
            100.0 * cores / quotas[level] for level, cores in busy.items() if cores is not None and level in quotas
        ]
        own = busy[0]
        if own is not None and self._limits.cores:
            shares.append(100.0 * own / self._limits.cores)
        put(values, "node/cgroup_cpu_cores", own)
        put(values, "node/cgroup_cpu_pct", max(shares, default=None))

    def _busy_cores(self, version: int, folder: str, now: float) -> float | None:
        if version == 1:
            ticks, scale = self._tree.number(folder, "cpuacct.usage"), _NS
        else:
            ticks, scale = table(self._tree.maybe(folder, "cpu.stat") or "").get("usage_usec"), _US
        if ticks is None:
            self.missing["node/cgroup_cpu_"] = "the control group shows no processor time"
            return None
        return self._rates.per_s(folder, ticks * scale, now)

    def _add_throttling(self, values: dict[str, float], now: float) -> None:
        if self._cpu is None or not self._limits.quotas:
            self.missing["node/cgroup_throttled_pct"] = "no processor quota"
            return
        shares = []
        for level in self._limits.quotas:
            folder = self._cpu.levels[level]
            stat = table(self._tree.maybe(folder, "cpu.stat") or "")
            periods = self._rates.change(f"{folder} periods", stat.get("nr_periods", 0), now)
            used_up = self._rates.change(f"{folder} throttled", stat.get("nr_throttled", 0), now)
            if periods and used_up and periods[0]:  # a group that did nothing has no periods
                shares.append(min(100.0, 100.0 * used_up[0] / periods[0]))
        put(values, "node/cgroup_throttled_pct", max(shares, default=None))

    def _add_memory(self, values: dict[str, float], group: Hierarchy) -> None:
        own = self._memory_used(group.version, group.levels[0])
        if own is None:
            self.missing["node/cgroup_mem_"] = "the topmost control group counts no memory"
        put(values, "node/cgroup_mem_used_bytes", own)
        used = {folder: self._memory_used(group.version, folder) for folder in self._limits.memory}
        shares = [
            100.0 * use / self._limits.memory[folder]
            for folder, use in used.items()
            if use is not None and self._limits.memory[folder]
        ]
        put(values, "node/cgroup_mem_pct", max(shares, default=None))
        if not self._limits.memory:
            self.missing["node/cgroup_mem_pct"] = "no memory limit"
        events = table(self._tree.maybe(group.levels[0], _MEMORY_EVENTS[group.version]) or "")
        put(values, "node/cgroup_oom_kills", events.get("oom_kill"))
        if "oom_kill" not in events:
            self.missing["node/cgroup_oom_kills"] = "the control group counts none"

    def _memory_used(self, version: int, folder: str) -> float | None:
        """Bytes without the page cache that the kernel drops first: what must fit below the limit."""
        used = self._tree.number(folder, _MEMORY_USED[version])
        if used is None:
            return None
        droppable = table(self._tree.maybe(folder, "memory.stat") or "").get(_MEMORY_DROPPABLE[version])
        return None if droppable is None else float(max(0, used - droppable))
