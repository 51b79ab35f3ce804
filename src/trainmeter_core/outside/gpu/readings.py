"""What one sample says of one GPU: named readings, each a value or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainmeter_core.devices import Device, lookup, mig_slice
from trainmeter_core.ladder import Counters
from trainmeter_core.outside.gpu.gpm import METRICS
from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# cause, as in verdicts.THROTTLE_CAUSES -> bit of the clocks' event reasons
EVENT_BITS = {
    "app_clocks": 0x2,
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
}
READINGS: dict[str, str] = {
    "gpu_util_pct": "the driver's utilization: some kernel was running",
    "sm_clock_mhz": "SM clock, averaged over the interval where the driver keeps a buffer",
    "mem_clock_mhz": "memory clock",
    "power_w": "power, averaged over the interval by the energy counter where there is one",
    "power_limit_w": "the power limit in force",
    "energy_j": "joules since watching began",
    "temp_c": "temperature of the GPU",
    "mem_temp_c": "temperature of its memory",
    "mem_used_bytes": "memory in use, without what the driver reserves where it says so",
    "mem_total_bytes": "memory of the GPU",
    "ecc_corrected": "corrected memory errors since the driver was loaded",
    "ecc_uncorrected": "uncorrected memory errors since the driver was loaded",
    "pcie_replays": "PCIe transfers repeated after an error",
    **dict.fromkeys(METRICS, "profiling counter (GPM)"),
}


@dataclass(frozen=True)
class GpuReadings:
    """One GPU over one interval. `values` has every name of READINGS; `throttle_pct` every cause of EVENT_BITS."""

    uuid: str
    index: int
    interval_s: float
    values: Mapping[str, Reading]
    throttle_pct: Mapping[str, Reading]

    def __getitem__(self, name: str) -> Reading:
        return self.values[name]


@dataclass(frozen=True)
class Xid:
    """An error that the driver reported for a GPU while we watched; `time_s` is Unix time."""

    time_s: float
    uuid: str
    code: int


@dataclass(frozen=True)
class GpuSample:
    """All of the job's GPUs over one interval. `absent` says why there are none; `failures` counts refused calls."""

    time_s: float
    interval_s: float
    gpus: tuple[GpuReadings, ...] = ()
    absent: Absent | None = None
    xids: tuple[Xid, ...] = ()
    failures: int = 0


@dataclass(frozen=True)
class GpuDescription:
    """What does not change while a job runs. `name` is the driver's for the whole GPU; `profile` names a MIG slice.

    `cuda_version` is the newest CUDA that the driver serves; `compute_capability` as "9.0".
    """

    uuid: str
    name: str
    index: int
    profile: str | None
    parent_uuid: str | None
    pci_bus_id: str
    driver_version: str | Absent
    cuda_version: str | Absent
    compute_capability: str | Absent
    mem_total_bytes: Reading
    multiprocessors: Reading
    max_sm_clock_mhz: Reading
    power_limit_w: Reading

    @property
    def cuda_name(self) -> str:
        """The name as CUDA prints it, which `devices.lookup` takes."""
        return f"{self.name} MIG {self.profile}" if self.profile else self.name

    def device(self) -> Device | Absent:
        """Its row in the table of peaks, scaled to the slice's own SMs where it is one."""
        if self.profile is None:
            memory = self.mem_total_bytes
            return lookup(self.name, None if isinstance(memory, Absent) else int(memory))
        whole = lookup(self.name)
        if isinstance(whole, Absent):
            return whole
        sms = self.multiprocessors
        return mig_slice(whole, self.profile, None if isinstance(sms, Absent) else int(sms))


@dataclass
class _Mean:
    weighted: float = 0.0
    seconds: float = 0.0
    refused: Absent = field(default_factory=lambda: Absent("not sampled"))

    def add(self, value: Reading, seconds: float) -> None:
        if isinstance(value, Absent):
            self.refused = value
        else:
            self.weighted += value * seconds
            self.seconds += seconds

    def reading(self) -> Reading:
        return self.weighted / self.seconds if self.seconds > 0 else self.refused


def window(samples: Sequence[GpuReadings]) -> Counters:
    """The ladder's counters of one GPU over several samples, weighted by interval; what is absent is left out."""
    names = {
        "gpu_util_pct": "graphics_util_pct",
        "driver_util_pct": "gpu_util_pct",
        "sm_active_pct": "sm_active_pct",
        "tensor_active_pct": "tensor_active_pct",
        "dram_active_pct": "dram_active_pct",
        "sm_clock_mhz": "sm_clock_mhz",
        "power_w": "power_w",
        "power_limit_w": "power_limit_w",
    }
    means = {ours: _Mean() for ours in names}
    throttle = {cause: _Mean() for cause in EVENT_BITS}
    for sample in samples:
        for ours, theirs in names.items():
            means[ours].add(sample.values[theirs], sample.interval_s)
        for cause, mean in throttle.items():
            mean.add(sample.throttle_pct[cause], sample.interval_s)
    return Counters(
        **{ours: mean.reading() for ours, mean in means.items()},
        throttle_pct={cause: mean.reading() for cause, mean in throttle.items()},
        samples=len(samples),
    )
