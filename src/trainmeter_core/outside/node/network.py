"""Bytes and losses of each network interface; /proc/net/dev."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from .rates import Rates, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tree import Tree

VIRTUAL = ("lo", "docker*", "br-*", "veth*", "virbr*", "cali*", "cni*", "flannel*", "kube-*", "lxc*", "dummy*", "ifb*")
"""Interfaces whose traffic stays on this node or passes a real one as well."""
_RECV_BYTES, _RECV_ERRORS, _RECV_DROPPED, _SENT_BYTES, _SENT_ERRORS, _SENT_DROPPED = 0, 2, 3, 8, 10, 11


class Network:
    """Rates since the last sample for each interface that matches no pattern of `skip`.

    The total is that of the interfaces with a device behind them (not again their bond or VLAN); where none has one,
    as in a container, it is that of all.
    """

    series = ("node/net_",)

    def __init__(self, tree: Tree, skip: Sequence[str] = VIRTUAL) -> None:
        self._tree = tree
        self._skip = tuple(skip)
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        counters = self._counters()
        if not counters:
            self.missing["node/net_"] = "no network interface but virtual ones"
        real = {name for name in counters if self._tree.exists("sys/class/net", name, "device")}
        for interface, count in counters.items():
            lost = sum(count[column] for column in (_RECV_ERRORS, _RECV_DROPPED, _SENT_ERRORS, _SENT_DROPPED))
            for name, counter in (
                ("node/net_recv_bytes_per_s", count[_RECV_BYTES]),
                ("node/net_sent_bytes_per_s", count[_SENT_BYTES]),
                ("node/net_lost_per_s", lost),
            ):
                rate = self._rates.per_s(f"{name}/{interface}", counter, now)
                put(values, f"{name}/{interface}", rate)
                if rate is not None and (interface in real or not real):
                    values[name] = values.get(name, 0.0) + rate
        return values

    def describe(self) -> dict[str, list[str]]:
        """`interfaces`: those that are watched."""
        return {"interfaces": list(self._counters())}

    def _counters(self) -> dict[str, list[int]]:
        rows = (line.partition(":") for line in self._tree.text("proc/net/dev").splitlines() if ":" in line)
        named = ((name.strip(), numbers) for name, _, numbers in rows)
        return {
            name: [int(number) for number in numbers.split()]
            for name, numbers in named
            if not any(fnmatchcase(name, pattern) for pattern in self._skip)
        }
