"""Peaks of a MIG slice: its share of the whole device's compute and memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trainmeter_core.devices.table import GIB
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from trainmeter_core.devices.table import Device

_PROFILE = re.compile(r"(?:(?P<compute>\d)c\.)?(?P<gpu>\d)g\.(?P<gib>\d+)gb(?:\+[a-z.]+)?")
_MEMORY_SLICES = 8
_ROUNDING = 0.15  # of a memory slice per GiB figure: profiles print whole GiB (1g.18gb of 141/8 = 17.6)


def mig_slice(device: Device, profile: str, multiprocessors: int | None = None) -> Device | Absent:
    """The slice `profile` ("1g.10gb", "1c.3g.40gb", "1g.10gb+me") of a whole device.

    Peaks scale by compute slices of the parent (seven on A100 and later), or by SMs where the driver gives the slice's
    `multiprocessors`, which is nearer the truth: three slices of an H100 have 60 of its 132 SMs, not 3/7 of them.
    Bandwidth scales by memory slices (eighths). The reference clock stays the parent's.
    """
    match = _PROFILE.fullmatch(profile.strip().lower())
    if match is None:
        return Absent(f"{profile!r} is not the name of a MIG profile")
    if not device.mig_slices:
        return Absent(f"{device.name} cannot be partitioned by MIG")
    gpu_slices = int(match["gpu"])
    compute_slices = int(match["compute"] or gpu_slices)
    gib_per_slice = device.memory_bytes / GIB / _MEMORY_SLICES
    memory_slices = round(int(match["gib"]) / gib_per_slice)
    fits = (
        1 <= compute_slices <= gpu_slices <= device.mig_slices
        and 1 <= memory_slices <= _MEMORY_SLICES
        and abs(int(match["gib"]) / gib_per_slice - memory_slices) <= _ROUNDING * memory_slices
    )
    if not fits:
        return Absent(f"{profile} is not a MIG profile of {device.name}")
    share, how = compute_slices / device.mig_slices, f"{compute_slices}/{device.mig_slices} compute slices"
    if multiprocessors and not isinstance(device.units, Absent):
        share, how = multiprocessors / device.units, f"{multiprocessors}/{device.units} SMs"
    return replace(
        device,
        name=f"{device.name} MIG {profile}",
        memory_bytes=device.memory_bytes * memory_slices // _MEMORY_SLICES,
        tflops={dtype: tflops * share for dtype, tflops in device.tflops.items()},
        units=multiprocessors or Absent("the driver did not give the slice's SM count"),
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * memory_slices / _MEMORY_SLICES,
        mig_slices=0,
        source=f"{device.source}, scaled to {how}",
        profile=profile,
    )
