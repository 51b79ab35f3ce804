"""NVIDIA GPUs from outside: the job's devices and their counters, through NVML."""

from __future__ import annotations

from trainmeter_core.outside.gpu.readings import (
    EVENT_BITS,
    READINGS,
    GpuDescription,
    GpuReadings,
    GpuSample,
    Xid,
    window,
)
from trainmeter_core.outside.gpu.sampler import GpuSampler

__all__ = [
    "EVENT_BITS",
    "READINGS",
    "GpuDescription",
    "GpuReadings",
    "GpuSample",
    "GpuSampler",
    "Xid",
    "window",
]
