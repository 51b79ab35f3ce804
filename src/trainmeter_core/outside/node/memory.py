"""Memory, swap and the ZFS cache of the whole host; /proc/meminfo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tree import table

if TYPE_CHECKING:
    from .tree import Tree

_KIB = 1024


class Memory:
    """Bytes now; a container sees the host's memory here and its own in `cgroup`."""

    series = ("node/mem_", "node/swap_")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        del now
        kib = table(self._tree.text("proc/meminfo"), ":")
        values: dict[str, float] = {}
        arc_bytes = _arc_size(self._tree.maybe("proc/spl/kstat/zfs/arcstats"))
        total, available = kib["MemTotal"] * _KIB, kib.get("MemAvailable")
        if arc_bytes is None:
            self.missing["node/mem_zfs_arc_bytes"] = "no ZFS on this node"
        else:
            values["node/mem_zfs_arc_bytes"] = arc_bytes
        if available is None:
            reason = "the kernel estimates no available memory (before Linux 3.14)"
            self.missing.update(dict.fromkeys(("node/mem_used_bytes", "node/mem_used_pct"), reason))
        else:
            used = max(0, total - available * _KIB - (arc_bytes or 0))
            values["node/mem_available_bytes"] = available * _KIB
            values["node/mem_used_bytes"] = used
            values["node/mem_used_pct"] = 100.0 * used / total
        cache = kib.get("Buffers", 0) + kib["Cached"] + kib.get("SReclaimable", 0) - kib.get("Shmem", 0)
        values["node/mem_cache_bytes"] = max(0, cache) * _KIB
        if "Shmem" in kib:
            values["node/mem_shared_bytes"] = kib["Shmem"] * _KIB
        swap = kib.get("SwapTotal", 0)
        if swap:
            values["node/swap_used_bytes"] = (swap - kib["SwapFree"]) * _KIB
            values["node/swap_used_pct"] = 100.0 * (swap - kib["SwapFree"]) / swap
        else:
            self.missing["node/swap_used_bytes"] = self.missing["node/swap_used_pct"] = "no swap on this node"
        return values


def _arc_size(text: str | None) -> int | None:
    """`size` of ZFS's arcstats, lines of `name type value`."""
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "size":  # noqa: PLR2004
            return int(words[2])
    return None
