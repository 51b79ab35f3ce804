"""Which of the GPUs that a job may use its models lie on, and the peak to measure them by; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.devices import Peak
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainmeter_core.devices import Device
    from trainmeter_core.outside.gpu import GpuDescription

USER = "user"


def gpus_named(visible: Sequence[GpuDescription], names: Sequence[str]) -> list[GpuDescription]:
    """The visible GPUs that a rank named, by UUID, or by CUDA's ordinal where its torch does not tell the UUID.

    A rank that named none may use any of them.
    """
    if not names:
        return list(visible)
    found: list[GpuDescription] = []
    for name in names:
        if name.startswith("cuda"):
            at = int(name.partition(":")[2] or 0)
            found += visible[at : at + 1]
        else:
            found += [gpu for gpu in visible if name in gpu.uuid or name in (gpu.parent_uuid or "")][:1]
    return found


def peak_of(devices: Sequence[Device | Absent], description: Mapping[str, Any], given: float | None) -> Peak | Absent:
    """The dense peak of one of the job's GPUs in the number format that ran; what the user gives wins."""
    dtype = description.get("autocast") or description.get("dtype")
    if given:
        return Peak(given, str(dtype or ""), USER)
    if not devices:
        return Absent("which GPU runs this is not known; give --peak-tflops")
    first = devices[0]
    if isinstance(first, Absent):
        return first
    if any(isinstance(device, Absent) or device.tflops != first.tflops for device in devices):
        return Absent("the job's GPUs are of different kinds; give --peak-tflops")
    if not dtype:
        return Absent("the model's number format is not known; give --peak-tflops")
    return first.peak(str(dtype), allow_tf32=bool(description.get("tf32")))
