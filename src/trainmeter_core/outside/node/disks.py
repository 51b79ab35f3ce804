"""Throughput, waiting time and occupation of each disk; /proc/diskstats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .rates import Rates, put

if TYPE_CHECKING:
    from .tree import Tree

_SECTOR = 512  # bytes, in this file whatever the disk's own sector is
_MS = 1e-3
# Layers over other disks (their bytes would count twice), and what is no disk.
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|drbd|bcache)\d")
_PARTITION = re.compile(r"((sd|vd|xvd|hd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+|nbd\d+)p\d+)")
_READS, _READ_SECTORS, _READ_MS, _WRITES, _WRITE_SECTORS, _WRITE_MS, _BUSY_MS, _WEIGHTED_MS = 3, 5, 6, 7, 9, 10, 12, 13


class Disks:
    """Rates since the last sample, for each physical disk; sums of bytes, the busiest disk."""

    series = ("node/disk_",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        rows = [line.split() for line in self._tree.text("proc/diskstats").splitlines()]
        rows = [row for row in rows if len(row) > _WEIGHTED_MS and is_disk(row[2])]
        if not rows:
            self.missing["node/disk_"] = "no disk is listed in /proc/diskstats"
        for row in rows:
            self._add(values, row[2], [0, 0, 0, *map(int, row[3 : _WEIGHTED_MS + 1])], now)
        for name, combine in (("read_bytes_per_s", sum), ("write_bytes_per_s", sum), ("busy_pct", max)):
            parts = [value for key, value in values.items() if key.startswith(f"node/disk_{name}/")]
            if parts:
                values[f"node/disk_{name}"] = combine(parts)
        return values

    def _add(self, values: dict[str, float], disk: str, count: list[int], now: float) -> None:
        def per_s(column: int) -> float | None:
            return self._rates.per_s(f"{disk} {column}", count[column], now)

        for name, column in (("read", _READ_SECTORS), ("write", _WRITE_SECTORS)):
            sectors = per_s(column)
            put(values, f"node/disk_{name}_bytes_per_s/{disk}", None if sectors is None else sectors * _SECTOR)
        put(values, f"node/disk_busy_pct/{disk}", self._rates.busy_pct(f"{disk} busy", count[_BUSY_MS] * _MS, now))
        for name, requests_column, time_column in (("read", _READS, _READ_MS), ("write", _WRITES, _WRITE_MS)):
            requests, time_ms = per_s(requests_column), per_s(time_column)
            if requests and time_ms is not None:  # without a request there is no waiting time
                values[f"node/disk_{name}_wait_s/{disk}"] = time_ms * _MS / requests
        weighted = per_s(_WEIGHTED_MS)
        put(values, f"node/disk_queue/{disk}", None if weighted is None else weighted * _MS)


def is_disk(name: str) -> bool:
    """True for a whole disk that is not made of others."""
    return not _NO_DISK.match(name) and not _PARTITION.fullmatch(name)
