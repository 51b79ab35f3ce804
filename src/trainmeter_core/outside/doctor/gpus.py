"""The GPU lines: driver, each GPU's counters and peak, and the permissions they need."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trainmeter_core.outside.gpu import GpuSampler
from trainmeter_core.outside.gpu.gpm import METRICS
from trainmeter_core.readings import Absent

from .line import Line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainmeter_core.outside.gpu import GpuDescription, GpuReadings

_SAMPLE_S = 0.3  # the counters are refreshed every 0.1 s
_NO_PERMISSION = 4
_PLAIN = ("gpu_util_pct", "sm_clock_mhz", "power_w", "energy_j", "temp_c", "mem_used_bytes")


def lines(environ: Mapping[str, str]) -> list[Line]:
    """What a job started with this environment could be told about its GPUs."""
    sampler = GpuSampler(environ=environ)
    try:
        if sampler.absent is not None:
            return [Line("gpu", "driver", "missing", sampler.absent.reason, _advice(sampler.absent))]
        first = sampler.devices[0]
        found = [Line("gpu", "driver", "ok", f"{first.driver_version}, CUDA up to {first.cuda_version}")]
        time.sleep(_SAMPLE_S)
        sample = sampler.sample()
        read = {gpu.uuid: gpu for gpu in sample.gpus}
        for device in sampler.devices:
            found += _one(device, read.get(device.uuid))
        if sampler.assumed:
            found.append(Line("gpu", "which GPUs", "missing", sampler.assumed))
        why = sampler.xid_absent
        found.append(
            Line("gpu", "Xid errors", "ok", "watched")
            if why is None
            else Line("gpu", "Xid errors", "missing", why.reason)
        )
        return found
    finally:
        sampler.close()


def _one(device: GpuDescription, reading: GpuReadings | None) -> list[Line]:
    label = f"GPU {device.index}" + (f" {device.profile}" if device.profile else "")
    row = device.device()
    if isinstance(row, Absent):
        found = [Line("gpu", label, "missing", f"{device.cuda_name}: no peak, {row.reason}", "tm --peak-tflops X …")]
    else:
        formats = ", ".join(f"{dtype} {tflops:g}" for dtype, tflops in row.tflops.items())
        found = [Line("gpu", label, "ok", f"{device.cuda_name}; dense TFLOP/s: {formats} ({row.source})")]
    if reading is None:
        return found
    profiling = [reading[name] for name in METRICS]
    refused = [value for value in profiling if isinstance(value, Absent)]
    if len(refused) < len(profiling):
        found.append(Line("gpu", label + " profiling (GPM)", "ok", f"{len(profiling) - len(refused)} counters"))
    else:
        code = getattr(refused[0], "code", None)
        state, advice = ("problem", _PERMISSION) if code == _NO_PERMISSION else ("missing", _NO_GPM)
        found.append(Line("gpu", label + " profiling (GPM)", state, refused[0].reason, advice))  # type: ignore[arg-type]
    silent = [name for name in _PLAIN if isinstance(reading[name], Absent)]
    known = ", ".join(name for name in _PLAIN if name not in silent)
    found.append(Line("gpu", label + " counters", "ok" if known else "missing", known or "none"))
    found += [Line("gpu", f"{label} {name}", "missing", str(getattr(reading[name], "reason", ""))) for name in silent]
    return found


def _advice(why: Absent) -> str:
    return _REMEDIES.get(getattr(why, "code", None) or 0, "")


_NO_GPM = "Hopper and later have it; without it the ladder is GPU utilization and MFU"
_PERMISSION = "ask the node's administrator whether GPU performance counters are restricted to root"
_REMEDIES = {
    9: "load the driver (nvidia-smi should work), or run where there is a GPU",
    12: "fine on a machine without NVIDIA GPUs; in a container start it with GPU access (--gpus all)",
    13: "pip install 'trainmeter[gpu]' if this machine has NVIDIA GPUs",
    18: "the driver was updated under a running kernel: reboot",
}
