"""What this process may use: cores, processor quotas and memory limits, on every level above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .tree import cpu_list, table

if TYPE_CHECKING:
    from .cgroup_paths import Hierarchy
    from .tree import Tree

_V1_NO_LIMIT = 1 << 60  # version 1 writes "none" as a number near 2**63


class Limits(NamedTuple):
    """What binds, and where: a quota or limit counts for its group and all below it."""

    cores: int
    """Cores this process may run on (online, affinity, cpuset); 0 when not known."""
    quotas: dict[int, float]
    """Level of the cpu hierarchy → cores."""
    memory: dict[str, int]
    """Folder of the memory hierarchy → bytes."""


def read_limits(tree: Tree, cpu: Hierarchy | None, memory: Hierarchy | None) -> Limits:
    """The limits as they are now; a batch system may change them while a job runs."""
    quotas: dict[int, float] = {}
    if cpu is not None:
        for level, folder in enumerate(cpu.levels):
            quota = _quota(tree, cpu.version, folder)
            if quota is not None:
                quotas[level] = quota
    limits: dict[str, int] = {}
    if memory is not None:
        for folder in memory.levels:
            limit = _memory_limit(tree, memory.version, folder)
            if limit is not None:
                limits[folder] = limit
    return Limits(len(_allowed(tree)), quotas, limits)


def _allowed(tree: Tree) -> set[int]:
    online = cpu_list(tree.maybe("sys/devices/system/cpu/online") or "")
    for line in (tree.maybe("proc/self/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            allowed = cpu_list(line.partition(":")[2])
            return allowed & online or allowed
    return online


def _quota(tree: Tree, version: int, folder: str) -> float | None:
    """Cores, or None for no quota."""
    if version == 1:
        quota, period = tree.number(folder, "cpu.cfs_quota_us"), tree.number(folder, "cpu.cfs_period_us")
    else:
        words = (tree.maybe(folder, "cpu.max") or "max 0").split()
        quota, period = (int(word) if word.isdecimal() else None for word in words)
    return quota / period if quota and period and quota > 0 else None


def _memory_limit(tree: Tree, version: int, folder: str) -> int | None:
    """Bytes, or None for no limit."""
    if version != 1:
        return tree.number(folder, "memory.max")
    limit = tree.number(folder, "memory.limit_in_bytes")
    # Also the tightest limit of groups above that are not mounted here.
    above = table(tree.maybe(folder, "memory.stat") or "").get("hierarchical_memory_limit")
    known = (amount for amount in (limit, above) if amount is not None and amount < _V1_NO_LIMIT)
    return min(known, default=None)
