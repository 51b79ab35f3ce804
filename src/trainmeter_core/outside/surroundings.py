"""What surrounds the program: the node and its GPUs, read once a second, as records for the run log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .hang import HangWatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .gpu_watch import GpuWatch
    from .node import NodeSampler
    from .ring_reader import RingReader

_NODE_EVERY_S = 1.0


class Surroundings:
    """Reads the node and the job's GPUs. Made after the command has started, because loading takes time."""

    def __init__(self, environ: Mapping[str, str], *, peak_tflops: float | None) -> None:
        from .gpu_watch import GpuWatch
        from .node import NodeSampler

        self.readings: dict[str, float] = {}
        """The node's newest readings, all of them."""
        self.notices: list[str] = []
        """Lines for the person at the terminal."""
        self.gpus: GpuWatch = GpuWatch(environ, peak_tflops=peak_tflops)
        self._node: NodeSampler = NodeSampler()
        self._records: list[dict[str, Any]] = [{"type": "hardware", **hardware_fields(self._node.describe())}]
        self._next_node = 0.0
        self._hang = HangWatch()

    def model(self, record: Mapping[str, Any]) -> None:
        """The agent of a rank described its model, and on which GPUs it lies."""
        self.gpus.model(int(record.get("rank", 0)), record["description"], list(record.get("gpus", ())))

    def stepped(self, fields: Mapping[str, Any], end: float) -> None:
        """A rank made steps."""
        self._hang.stepped(fields, end)
        self.gpus.stepped(fields, end)

    def poll(self, rings: Iterable[RingReader]) -> list[dict[str, Any]]:
        """Read what is due; give the records for the run log."""
        now = time.monotonic()
        if now >= self._next_node:
            self._next_node = now + _NODE_EVERY_S
            self.readings = self._node.sample()
            self._records.append({"type": "node", "readings": self.readings})
        if self._take_gpus(self.gpus.poll()) and (found := self._hang.look(self.gpus, rings)) is not None:
            self._records.append({"type": "verdict", **found._asdict()})
            self.notices.append(found.sentence)
        return self._take_records()

    def close(self) -> list[dict[str, Any]]:
        """Read the GPUs for the last time; give the records that are left."""
        self._take_gpus(self.gpus.close())
        return self._take_records()

    def _take_gpus(self, records: list[dict[str, Any]]) -> bool:
        self.notices += self.gpus.notices
        self.gpus.notices.clear()
        self._records += records
        return bool(records)

    def _take_records(self) -> list[dict[str, Any]]:
        records, self._records = self._records, []
        return records


def hardware_fields(described: Mapping[str, Any]) -> dict[str, Any]:
    """The run log's `hardware` fields from what the node sampler describes."""
    wanted = {"cpu": "cpu_model", "cpu_cores": "cpu_cores", "memory_bytes": "memory_bytes"}
    return {name: described[key] for name, key in wanted.items() if described.get(key) is not None}
