"""The driver's plain counters, one function each: nvml and a handle in, a value in our unit or an `Absent` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.outside.gpu.nvml import NOT_SUPPORTED, Refused, wants_other_call
from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from trainmeter_core.outside.gpu.nvml import Nvml

_GPU_TEMPERATURE, _SM_CLOCK, _MEM_CLOCK = 0, 1, 2
# Only ids that mean the same in every driver: the newer per-cause times were 251-253 in one header and 269-271 in the
# next, where 251-253 became power smoothing, so a wrong driver would answer with another quantity.
TIME_FIELDS = {"power_cap": 74, "thermal": 75, "sync_boost": 76}  # cumulative nanoseconds
PLAIN_FIELDS = {"mem_temp_c": 82, "ecc_corrected": 3, "ecc_uncorrected": 4, "pcie_replays": 94}
_SHORTEST_S = 0.05
_HIGHEST_SHARE = 120.0  # percent; the driver's clock and ours need not start an interval together
_VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Memory(NamedTuple):
    used_bytes: int
    total_bytes: int


def utilization(nvml: Nvml, handle: Any) -> Reading:
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return rates if isinstance(rates, Absent) else int(rates.gpu)


def sm_clock(nvml: Nvml, handle: Any) -> Reading:
    return _positive(nvml.ask("nvmlDeviceGetClockInfo", handle, _SM_CLOCK), 1.0)


def mem_clock(nvml: Nvml, handle: Any) -> Reading:
    return _positive(nvml.ask("nvmlDeviceGetClockInfo", handle, _MEM_CLOCK), 1.0)


def power(nvml: Nvml, handle: Any) -> Reading:
    return _positive(nvml.ask("nvmlDeviceGetPowerUsage", handle), 1e-3)


def power_limit(nvml: Nvml, handle: Any) -> Reading:
    return _positive(nvml.ask("nvmlDeviceGetEnforcedPowerLimit", handle), 1e-3)


def energy_mj(nvml: Nvml, handle: Any) -> Reading:
    value = nvml.ask("nvmlDeviceGetTotalEnergyConsumption", handle)
    return value if isinstance(value, Absent) else int(value)


def temperature(nvml: Nvml, handle: Any) -> Reading:
    """Degrees Celsius; the newer call where the driver no longer has the old one."""
    value = nvml.ask("nvmlDeviceGetTemperature", handle, _GPU_TEMPERATURE)
    if wants_other_call(value):
        value = nvml.ask("nvmlDeviceGetTemperatureV", handle, _GPU_TEMPERATURE)
    return value if isinstance(value, Absent) else int(value)


def memory(nvml: Nvml, handle: Any) -> Memory | Absent:
    """Used and total bytes; version 2 leaves out what the driver reserves, version 1 (old drivers) counts it in."""
    version = nvml.constant("nvmlMemory_v2")
    info: Any = Refused("this nvidia-ml-py has no memory info 2", NOT_SUPPORTED)
    if version is not None:
        info = nvml.ask("nvmlDeviceGetMemoryInfo", handle, version=version)
    if wants_other_call(info):
        info = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    if isinstance(info, Refused) and info.code == NOT_SUPPORTED:
        return Refused(
            "the driver reports no memory for it (shared with the processor, or a virtual GPU)", NOT_SUPPORTED
        )
    if isinstance(info, Absent):
        return info
    if not info.total:
        return Absent("the driver reports 0 bytes of memory")
    return Memory(int(info.used), int(info.total))


def event_bits(nvml: Nvml, handle: Any) -> int | Absent:
    """The clocks' event reasons, under the new name or the one that drivers before 535 have."""
    bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if wants_other_call(bits):
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return bits if isinstance(bits, Absent) else int(bits)


def fields(nvml: Nvml, handle: Any) -> dict[str, Reading] | Absent:
    """TIME_FIELDS and PLAIN_FIELDS in one call; each entry has its own return code and value type."""
    wanted = {**TIME_FIELDS, **PLAIN_FIELDS}
    answer = nvml.ask("nvmlDeviceGetFieldValues", handle, list(wanted.values()))
    if isinstance(answer, Absent):
        return answer
    return {name: _field(entry) for name, entry in zip(wanted, answer, strict=False)}


def buffered_mean(nvml: Nvml, handle: Any, kind: int, since_us: int) -> tuple[float, int] | Absent:
    """Mean of the samples the driver itself took after `since_us`, and the newest one's time, in its microseconds.

    kind: 1 utilization percent, 5 SM clock MHz.
    """
    answer = nvml.ask("nvmlDeviceGetSamples", handle, kind, since_us)
    if isinstance(answer, Absent):
        return answer
    value_type, samples = answer
    if not 0 <= value_type < len(_VALUE_TYPES):
        return Absent("the driver's samples are of an unknown type")
    taken = [
        (int(sample.timeStamp), float(getattr(sample.sampleValue, _VALUE_TYPES[value_type])))
        for sample in samples
        if sample.timeStamp > since_us
    ]
    if not taken:
        return Absent("the driver took no sample in this interval")
    return sum(value for _, value in taken) / len(taken), max(time for time, _ in taken)


def share_pct(before_ns: Reading, now_ns: Reading, seconds: float) -> Reading:
    """Percent of `seconds` by which a cumulative nanosecond counter grew; Absent if it went back or grew too fast."""
    if isinstance(before_ns, Absent):
        return before_ns
    if isinstance(now_ns, Absent):
        return now_ns
    if seconds < _SHORTEST_S or now_ns < before_ns:
        return Absent("the counter was reset, or the interval is too short")
    share = (now_ns - before_ns) / (seconds * 1e7)
    return min(share, 100.0) if share < _HIGHEST_SHARE else Absent("the counter grew faster than time")


def _positive(value: Any, factor: float) -> Reading:
    """A physical quantity that is never 0 on a live GPU: 0 is how some drivers say that they do not know."""
    if isinstance(value, Absent):
        return value
    return float(value) * factor if value > 0 else Absent("the driver gave 0, which is not possible")


def _field(entry: Any) -> Reading:
    if entry.nvmlReturn != 0:
        return Refused("not supported by this GPU or driver", int(entry.nvmlReturn))
    if not 0 <= entry.valueType < len(_VALUE_TYPES):
        return Absent("the driver's value is of an unknown type")
    value: float = getattr(entry.value, _VALUE_TYPES[entry.valueType])
    return value
