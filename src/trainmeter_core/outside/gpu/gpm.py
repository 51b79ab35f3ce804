"""Averages between two GPM samples of one GPU (Hopper and later): SM, tensor and memory activity, PCIe and NVLink.

Two sample buffers per device, used in turn for as long as it lives. Every metric is asked for alone until it has worked
once; those that work are then asked for together, in few slots of nvidia-ml-py's own struct: its size differs between
versions that all call themselves version 1. Streaming mode, which changes the device, is never touched.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainmeter_core.outside.gpu.nvml import NOT_SUPPORTED, Backoff, Nvml, Refused, wants_other_call
from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MIB = 2.0**20
_MIN_INTERVAL_S = 0.1  # the counters themselves are refreshed every 100 ms
_HIGHEST_PCT = 101.0  # rounding; more is a broken counter

# reading -> (metric id, factor to our unit). 60 is received and 61 sent: not the order of PCIe's 20 and 21.
METRICS: dict[str, tuple[int, float]] = {
    "graphics_util_pct": (1, 1.0),
    "sm_active_pct": (2, 1.0),
    "sm_occupancy_pct": (3, 1.0),
    "integer_active_pct": (4, 1.0),
    "tensor_active_pct": (5, 1.0),
    "tensor_half_active_pct": (7, 1.0),
    "tensor_integer_active_pct": (9, 1.0),
    "dram_active_pct": (10, 1.0),
    "fp64_active_pct": (11, 1.0),
    "fp32_active_pct": (12, 1.0),
    "fp16_active_pct": (13, 1.0),
    "pcie_tx_bytes_per_s": (20, _MIB),
    "pcie_rx_bytes_per_s": (21, _MIB),
    "nvlink_rx_bytes_per_s": (60, _MIB),
    "nvlink_tx_bytes_per_s": (61, _MIB),
}


class Gpm:
    """The GPM counters of one GPU or MIG slice; `read` gives averages since the last `read` that worked."""

    def __init__(self, nvml: Nvml, handle: Any, clock: Callable[[], float], mig: tuple[Any, int] | None = None) -> None:
        self._nvml, self._handle, self._clock, self._mig = nvml, handle, clock, mig
        self._device = Backoff(clock)
        self._each = {name: Backoff(clock) for name in METRICS}
        self._refused: dict[str, Absent] = {}
        self._known: set[str] = set()
        self._absent: Absent = Absent("first sample")
        self._buffers: list[Any] = []
        self._taken_at: float | None = None
        self._through_parent = False

    def prime(self) -> None:
        """Takes the first of the two samples, so that the first `read` has an interval to average over."""
        if self._taken_at is None and self._device.ready():
            self._take_first()

    def read(self) -> dict[str, Reading]:
        """Each of METRICS, averaged over the time since the last read, or why it is not there."""
        if not self._device.ready():
            return dict.fromkeys(METRICS, self._absent)
        if self._taken_at is None:
            self._take_first()
            return dict.fromkeys(METRICS, self._absent)
        if self._clock() - self._taken_at < _MIN_INTERVAL_S:
            return dict.fromkeys(METRICS, Absent("sampled again within 0.1 s, the counters' own period"))
        taken = self._take(self._buffers[1])
        if isinstance(taken, Refused):  # the earlier sample stays: the next average then covers both intervals
            self._give_up(taken)
            return dict.fromkeys(METRICS, taken)
        self._device.worked()
        readings = self._metrics()
        self._buffers.reverse()
        self._taken_at = self._clock()
        return readings

    def close(self) -> None:
        for buffer in self._buffers:
            self._nvml.ask("nvmlGpmSampleFree", buffer)
        self._buffers, self._taken_at = [], None

    def _take_first(self) -> None:
        support = self._nvml.ask("nvmlGpmQueryDeviceSupport", self._handle)
        if not isinstance(support, Absent) and not support.isSupportedDevice:
            support = Refused(
                "this GPU has no profiling counters that a user may read (GPM needs Hopper)", NOT_SUPPORTED
            )
        if isinstance(support, Refused):
            self._give_up(support)
            return
        while len(self._buffers) < 2:  # noqa: PLR2004 (a pair)
            buffer = self._nvml.ask("nvmlGpmSampleAlloc")
            if isinstance(buffer, Refused):
                self._give_up(buffer)
                return
            self._buffers.append(buffer)
        taken = self._take(self._buffers[0])
        if isinstance(taken, Refused):  # drivers that claim support and then refuse (vGPU, a slice without compute)
            self._give_up(taken)
            return
        self._absent = Absent("first sample")
        self._device.worked()
        self._taken_at = self._clock()

    def _take(self, buffer: Any) -> Any:
        """One sample into `buffer`; of a slice by its own handle or, with older drivers, by parent and instance."""
        if not self._through_parent:
            taken = self._nvml.ask("nvmlGpmSampleGet", self._handle, buffer)
            if self._mig is None or not wants_other_call(taken):
                return taken
        parent, instance = self._mig or (None, 0)
        taken = self._nvml.ask("nvmlGpmMigSampleGet", parent, instance, buffer)
        self._through_parent = not isinstance(taken, Refused)
        return taken

    def _give_up(self, refused: Refused) -> None:
        self._absent = refused
        self._device.failed(refused.code)

    def _metrics(self) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        if self._known:
            readings = self._ask(self._known)
        for name in METRICS:
            if name in readings:
                continue
            if not self._each[name].ready():
                readings[name] = self._refused[name]
                continue
            readings.update(self._ask([name]))
        for name, reading in readings.items():
            if isinstance(reading, Refused):
                self._known.discard(name)
                if self._each[name].ready():
                    self._each[name].failed(reading.code)
                    self._refused[name] = reading
            else:
                self._known.add(name)
                self._each[name].worked()
        return readings

    def _ask(self, names: Iterable[str]) -> dict[str, Reading]:
        """One call for several metrics; {} if the call itself fails for more than one, so that each is tried alone."""
        wanted = list(names)
        highest = self._nvml.constant("NVML_GPM_METRIC_MAX") or 0
        struct = self._nvml.constant("c_nvmlGpmMetricsGet_t")
        if struct is None or any(METRICS[name][0] >= highest for name in wanted):
            return {name: Refused("this nvidia-ml-py is too old for it", NOT_SUPPORTED) for name in wanted}
        request = struct()
        request.version = self._nvml.constant("NVML_GPM_METRICS_GET_VERSION") or 1
        request.numMetrics = len(wanted)
        request.sample1, request.sample2 = self._buffers
        for slot, name in enumerate(wanted):
            request.metrics[slot].metricId = METRICS[name][0]
        answer = self._nvml.ask("nvmlGpmMetricsGet", request)
        if isinstance(answer, Refused):
            return {wanted[0]: answer} if len(wanted) == 1 else {}
        return {name: _reading(name, request.metrics[slot]) for slot, name in enumerate(wanted)}


def _reading(name: str, metric: Any) -> Reading:
    """One slot's value in our unit; a value that cannot be is Absent, not clamped."""
    if metric.nvmlReturn != 0:
        return Refused("not supported by this GPU or driver", int(metric.nvmlReturn))
    value = float(metric.value)
    if not math.isfinite(value):
        return Absent("the counter gave no number for this interval")
    if value < 0 or (name.endswith("_pct") and value > _HIGHEST_PCT):
        return Absent(f"the counter gave {value:g}, which is not possible")
    return value * METRICS[name][1]
