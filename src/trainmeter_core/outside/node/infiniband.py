"""Bytes through InfiniBand and RoCE ports, which no network counter shows; /sys/class/infiniband."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rates import Rates, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tree import Tree

_ROOM = "sys/class/infiniband"
_LANE_BYTES = 4  # port_rcv_data and port_xmit_data count 32-bit words


class InfiniBand:
    """Rates since the last sample of each active port."""

    series = ("node/ib_",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rates = Rates()
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        ports = list(self.active_ports())
        if not ports:
            self.missing["node/ib_"] = "no active InfiniBand or RoCE port"
        for device, port in ports:
            for name, file in (("recv", "port_rcv_data"), ("sent", "port_xmit_data")):
                words = self._tree.number(_ROOM, device, "ports", port, "counters", file)
                if words is None:
                    self.missing[f"node/ib_{name}_bytes_per_s"] = f"{device} port {port} shows no {file}"
                    continue
                series = f"node/ib_{name}_bytes_per_s"
                rate = self._rates.per_s(f"{series}/{device}_{port}", words * _LANE_BYTES, now)
                put(values, f"{series}/{device}_{port}", rate)
                if rate is not None:
                    values[series] = values.get(series, 0.0) + rate
        return values

    def active_ports(self) -> Iterator[tuple[str, str]]:
        """Device and port of every link that is up."""
        for device in self._tree.names(_ROOM):
            for port in self._tree.names(_ROOM, device, "ports"):
                state = self._tree.maybe(_ROOM, device, "ports", port, "state")
                if state is None or "ACTIVE" in state:
                    yield device, port

    def describe(self) -> dict[str, dict[str, str]]:
        """`links`: port → its rate in the kernel's words, as `400 Gb/sec (4X NDR)`."""
        rates = {
            f"{device}_{port}": self._tree.maybe(_ROOM, device, "ports", port, "rate")
            for device, port in self.active_ports()
        }
        return {"links": {port: rate for port, rate in rates.items() if rate}}
