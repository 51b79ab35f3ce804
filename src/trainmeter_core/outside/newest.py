"""The newest reading of everything, and the three places it goes: the board, /metrics, and rows for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.series import GPU_FAMILIES, PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .gpu_watch import GpuWatch
    from .metrics import MetricsServer
    from .ring_reader import RingReader
    from .spool import Spool

# What of the node goes to the tracker; all of it is in the run log and on /metrics.
PUBLISHED = (
    "node/cpu_pct",
    "node/cpu_iowait_pct",
    "node/load_1",
    "node/mem_used_pct",
    "node/cgroup_cpu_pct",
    "node/cgroup_mem_pct",
    "node/shm_used_pct",
    "node/fs_used_pct",
    "node/disk_read_bytes_per_s",
    "node/disk_write_bytes_per_s",
    "node/disk_busy_pct",
    "node/net_recv_bytes_per_s",
    "node/net_sent_bytes_per_s",
    "node/ib_recv_bytes_per_s",
    "node/ib_sent_bytes_per_s",
)

DEVICES = "devices"
PEAK = "peak_tflops"
"""Served beside the series, so that runs of a fleet can be weighed: devices of this node, and the peak of one."""


class Newest:
    """Readings by series name without prefix. `spool` and `metrics` are None where they could not be had."""

    def __init__(self, spool: Spool | None, metrics: MetricsServer | None) -> None:
        self._spool = spool
        self._metrics = metrics
        self._node: dict[str, float] = {}
        self._gpus: dict[str, float] = {}
        self._rows: dict[str, dict[str, float]] = {}
        self._by_gpu: dict[str, dict[str, float]] = {}
        self._by_rank: dict[str, dict[int, dict[str, float]]] = {}
        """Of each run of the command, by its id."""
        self._for_agents: dict[str, Any] = {}

    def node(self, readings: Mapping[str, float]) -> None:
        """Take the node's readings."""
        self._node = dict(readings)
        self._lay_out()

    def gpus(self, watch: GpuWatch) -> None:
        """Take the GPUs' series; one that is not known any more is gone everywhere."""
        self._gpus = dict(watch.series)
        self._by_gpu = {
            uuid: {name: value for name, value in series.items() if name.startswith(GPU_FAMILIES)}
            for uuid, series in watch.by_gpu.items()
        }
        self._for_agents = watch.for_board()
        self._lay_out()

    def ranks(self, rings: Iterable[tuple[str, RingReader]]) -> None:
        """Take what each rank of this node counts, with the id of its run."""
        self._by_rank = {}
        for run, ring in rings:
            totals = ring.totals()
            counts: dict[str, float] = {"rank/step": totals.steps, "rank/tokens": totals.tokens}
            self._by_rank.setdefault(run, {})[ring.identity.rank] = counts

    def row(self, run: str, row: Mapping[str, float], *, devices: int, peak_tflops: float | None) -> dict[str, float]:
        """Take a row of a run by its id; the same row with what the node and the GPUs read at that time."""
        served = self._rows.setdefault(run, {})
        served.update({name.removeprefix(PREFIX): value for name, value in row.items()})
        served.update({DEVICES: devices, **({PEAK: peak_tflops} if peak_tflops else {})})
        published = {name: self._node[name] for name in PUBLISHED if name in self._node}
        return {**{PREFIX + name: value for name, value in (published | self._gpus).items()}, **row}

    def serve(self, under_way: Sequence[str]) -> None:
        """Bring /metrics up to date with what these runs, by id, come to; the machine's readings are at the first."""
        if self._metrics is None:
            return
        first, *others = under_way
        self._rows = {run: row for run, row in self._rows.items() if run in under_way}
        self._metrics.update(
            self._node | self._gpus | self._rows.get(first, {}),
            run=first,
            ranks=self._by_rank.get(first),
            gpus=self._by_gpu,
            beside={run: (self._rows.get(run, {}), self._by_rank.get(run, {})) for run in others},
        )

    def _lay_out(self) -> None:
        if self._spool is not None:
            published = {name: self._node[name] for name in PUBLISHED if name in self._node}
            self._spool.lay_out({"series": published | self._gpus, **self._for_agents})
