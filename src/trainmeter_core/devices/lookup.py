"""From the name and memory size a driver reports to the device, or the reason why not."""

from __future__ import annotations

from trainmeter_core.devices.mig import mig_slice
from trainmeter_core.devices.table import Device, devices_by_name, normalised
from trainmeter_core.readings import Absent

_MEMORY_TOLERANCE = 0.10  # ECC and the driver take up to 8 % (a Tesla T4 of 16 GiB reports 14.75)
_SLICE_TOLERANCE = 0.15  # a slice loses more: 1g.18gb of an H200 has 16 of 17.6 GiB


def lookup(name: str, memory_bytes: int | None = None) -> Device | Absent:
    """The device a driver calls `name`, checked against the memory it reports.

    Only whole listed names match, in any case and spacing: part of a name is another product's name (L4 and L40S).
    "… MIG 3g.40gb", as CUDA names a slice, gives the slice. An unknown name, or a size that contradicts the name
    (a vGPU, a variant that is not listed), is Absent with what to do.
    """
    whole, _, profile = name.partition(" MIG ")
    device = devices_by_name().get(normalised(whole))
    if device is None:
        return Absent(f"{name!r} is not in the table of peaks; give --peak-tflops")
    found = mig_slice(device, profile) if profile else device
    if isinstance(found, Absent) or memory_bytes is None:
        return found
    tolerance = _SLICE_TOLERANCE if found.profile else _MEMORY_TOLERANCE
    if abs(memory_bytes - found.memory_bytes) > tolerance * found.memory_bytes:
        return Absent(
            f"{name!r} should have {found.memory_bytes / 2**30:.0f} GiB but reports {memory_bytes / 2**30:.1f} GiB: "
            "a vGPU or a variant that is not in the table of peaks; give --peak-tflops"
        )
    return found


def by_short_name(short: str) -> Device | Absent:
    """The device that a person calls "h100-sxm", "L40S" or "H200": a row's id, family, or listed name.

    A family of several devices ("H100": SXM, PCIe, NVL) is Absent, naming them: their peaks differ.
    """
    wanted = normalised(short)
    named = devices_by_name().get(wanted)
    if named is not None:
        return named
    rows = {device.id: device for device in reversed(list(devices_by_name().values()))}
    candidates = [d for d in rows.values() if wanted in (d.id, normalised(d.family))]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        ids = ", ".join(sorted(device.id for device in candidates))
        return Absent(f"{short!r} is several devices; say which: {ids}")
    return Absent(f"{short!r} is not in the table of peaks; give --peak-tflops")
