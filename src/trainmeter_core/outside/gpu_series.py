"""From one sample of the job's GPUs to what is logged and published; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core import ladder
from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainmeter_core.devices import Device, Peak
    from trainmeter_core.ladder import Counters
    from trainmeter_core.outside.gpu import GpuReadings

# series -> reading of the sampler
PLAIN = {
    "gpu/sm_occupancy": "sm_occupancy_pct",
    "gpu/fp32_active": "fp32_active_pct",
    "gpu/power_w": "power_w",
    "gpu/energy_j": "energy_j",
    "gpu/sm_clock_mhz": "sm_clock_mhz",
    "gpu/mem_used_bytes": "mem_used_bytes",
    "gpu/temp_c": "temp_c",
}
SUMMED = ("gpu/energy_j",)
_PROFILED = ("sm_occupancy_pct", "fp32_active_pct")
_STUCK = Absent("profiling counters stuck at 0 while the driver reports work")


def logged(reading: GpuReadings, device: Device | Absent) -> dict[str, Any]:
    """What the run log keeps of one GPU: every reading that is known, OFU, and the causes of a lower clock."""
    values = dict(reading.values)
    values["ofu_pct"] = ladder.ofu_pct(reading["tensor_active_pct"], reading["sm_clock_mhz"], _reference(device))
    kept: dict[str, Any] = _short(values)
    throttle = _short(reading.throttle_pct)
    if throttle:
        kept["throttle"] = throttle
    return kept


def series_of(
    reading: GpuReadings, counters: Counters, device: Device | Absent, peak: Peak | Absent
) -> dict[str, Reading]:
    """The published series of one GPU. `counters` are those of the same sample, without any that are stuck."""
    rungs = ladder.climb(counters, reference_mhz=_reference(device), hfu_pct=_LATER, mfu_pct=_LATER)
    stuck = isinstance(counters.sm_active_pct, Absent)
    flops = _observed(rungs.ofu, peak)
    bandwidth: Reading = device if isinstance(device, Absent) else device.bandwidth_bytes_per_s
    series: dict[str, Reading] = {"ladder/" + name: value for name, value in rungs.rungs()[:4]}
    series.update({name: _STUCK if stuck and of in _PROFILED else reading[of] for name, of in PLAIN.items()})
    series["gpu/dram_active"] = counters.dram_active_pct
    series["gpu/throttle"] = _worst(reading.throttle_pct)
    series["gpu/observed_tflops"] = flops if isinstance(flops, Absent) else flops / 1e12
    series["intensity/observed"] = ladder.observed_intensity(flops, counters.dram_active_pct, bandwidth)
    series["intensity/ridge"] = ladder.ridge_intensity(
        peak if isinstance(peak, Absent) else peak.flops_per_s, bandwidth
    )
    return series


def averaged(gpus: Sequence[Mapping[str, Reading]]) -> dict[str, float]:
    """The mean over GPUs of each series that is known, the sum of energies; what no GPU has is left out."""
    together: dict[str, float] = {}
    for name in gpus[0] if gpus else ():
        spread = ladder.spread([series[name] for series in gpus])
        if not isinstance(spread.mean, Absent):
            together[name] = spread.mean * spread.known if name in SUMMED else spread.mean
    return together


def known(series: Mapping[str, Reading]) -> dict[str, float]:
    """One GPU's series without what is absent."""
    return {name: value for name, value in series.items() if not isinstance(value, Absent)}


def _short(values: Mapping[str, Reading]) -> dict[str, float]:
    """What is known, with no more digits than counters have: a log of days holds a line per second."""
    return {
        name: round(value, 4) if abs(value) < _WHOLE_FROM else round(value)
        for name, value in values.items()
        if not isinstance(value, Absent)
    }


_WHOLE_FROM = 1e6
_LATER = Absent("taken over whole steps")


def _reference(device: Device | Absent) -> Reading:
    return device if isinstance(device, Absent) else device.reference_mhz


def _observed(ofu: Reading, peak: Peak | Absent) -> Reading:
    if isinstance(peak, Absent):
        return peak
    return ladder.observed_flops_per_s(ofu, peak.flops_per_s, peak.dtype)


def _worst(shares: Mapping[str, Reading]) -> Reading:
    """The greatest share of any cause; several hold the clock back at once, so their sum would say too much."""
    found = [share for share in shares.values() if not isinstance(share, Absent)]
    return max(found) if found else next(iter(shares.values()), Absent("not sampled"))
