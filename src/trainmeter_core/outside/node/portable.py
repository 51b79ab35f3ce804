"""The same through psutil, on systems without /proc."""

from __future__ import annotations

import socket
from typing import Any

from .rates import Rates, put

_CPU_KINDS = {"user": ("user", "nice"), "system": ("system", "irq", "softirq"), "idle": ("idle",)}


class Portable:
    """Processors, load, memory, disks and network of the whole host; nothing that only Linux shows."""

    series = ("node/",)

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        ps = self._psutil
        values: dict[str, float] = {}
        times = ps.cpu_times()
        grown = {}
        for kind, fields in _CPU_KINDS.items():
            change = self._rates.change(kind, sum(getattr(times, field, 0.0) for field in fields), now)
            grown[kind] = change[0] if change else 0.0
        total = sum(grown.values())
        if total:
            values |= {f"node/cpu_{kind}_pct": 100.0 * seconds / total for kind, seconds in grown.items()}
            values["node/cpu_pct"] = 100.0 - values["node/cpu_idle_pct"]
        values |= dict(zip(("node/load_1", "node/load_5", "node/load_15"), ps.getloadavg(), strict=True))
        memory, swap = ps.virtual_memory(), ps.swap_memory()
        values["node/mem_available_bytes"] = float(memory.available)
        values["node/mem_used_bytes"] = float(memory.total - memory.available)
        values["node/mem_used_pct"] = 100.0 * values["node/mem_used_bytes"] / memory.total
        if swap.total:
            values["node/swap_used_bytes"], values["node/swap_used_pct"] = float(swap.used), float(swap.percent)
        disk, net = ps.disk_io_counters(), ps.net_io_counters()
        for name, counter in (
            ("node/disk_read_bytes_per_s", disk and disk.read_bytes),
            ("node/disk_write_bytes_per_s", disk and disk.write_bytes),
            ("node/net_recv_bytes_per_s", net and net.bytes_recv),
            ("node/net_sent_bytes_per_s", net and net.bytes_sent),
        ):
            if counter is not None:
                put(values, name, self._rates.per_s(name, counter, now))
        self.missing["node/"] = "shown by Linux only"
        return values

    def describe(self) -> dict[str, Any]:
        """Host, kernel and sizes."""
        import platform

        facts = {
            "host": socket.gethostname(),
            "kernel": platform.release(),
            "os": platform.platform(),
            "cpu_model": platform.processor() or platform.machine(),
            "cpu_threads": self._psutil.cpu_count(),
            "cpu_cores": self._psutil.cpu_count(logical=False),
            "memory_bytes": self._psutil.virtual_memory().total,
        }
        return {name: value for name, value in facts.items() if value}
