"""Every GPU and MIG slice that the driver lists on this machine, each tried alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from trainmeter_core.outside.gpu.nvml import Nvml

_MAX_GPUS = 256  # a driver that answers with a wild count must not hang us


@dataclass(frozen=True)
class Listed:
    """A whole GPU, or a MIG slice of one (`parent_uuid` set).

    index is NVML's, in PCI order; it is shown to people and used to read CUDA_VISIBLE_DEVICES, never to identify.
    speed is cores x highest clock, the nearest there is to how CUDA ranks GPUs; 0 where the driver does not say.
    """

    uuid: str
    name: str
    index: int
    pci_bus_id: str
    speed: float = 0.0
    mig_enabled: bool = False
    parent_uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    profile: str | None = None


def list_gpus(nvml: Nvml) -> list[Listed] | Absent:
    """All whole GPUs in the driver's order, each followed by its MIG slices.

    The driver's count includes GPUs that this user may not open; those are left out.
    """
    count = nvml.ask("nvmlDeviceGetCount")
    if isinstance(count, Absent):
        return count
    found: list[Listed] = []
    refused: Absent | None = None
    for index in range(min(int(count), _MAX_GPUS)):
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Absent):
            refused = handle if refused is None else refused
            continue
        uuid = nvml.ask("nvmlDeviceGetUUID", handle)
        if isinstance(uuid, Absent):
            refused = uuid if refused is None else refused
            continue
        gpu = _whole(nvml, handle, index, uuid)
        found.append(gpu)
        if gpu.mig_enabled:
            found.extend(_slices(nvml, handle, gpu))
    if not found:
        return Absent("the driver lists no GPU") if refused is None else refused
    return found


def _whole(nvml: Nvml, handle: Any, index: int, uuid: str) -> Listed:
    name = nvml.ask("nvmlDeviceGetName", handle)
    pci = nvml.ask("nvmlDeviceGetPciInfo", handle)
    mig = nvml.ask("nvmlDeviceGetMigMode", handle)
    cores = nvml.ask("nvmlDeviceGetNumGpuCores", handle)
    clock = nvml.ask("nvmlDeviceGetMaxClockInfo", handle, 1)
    return Listed(
        uuid=uuid,
        name="unknown GPU" if isinstance(name, Absent) else name,
        index=index,
        pci_bus_id="" if isinstance(pci, Absent) else _text(pci.busId).lower(),
        speed=0.0 if isinstance(cores, Absent) or isinstance(clock, Absent) else float(cores) * float(clock),
        mig_enabled=not isinstance(mig, Absent) and bool(mig[0]),
    )


def _slices(nvml: Nvml, handle: Any, gpu: Listed) -> list[Listed]:
    most = nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    slices = []
    for position in range(0 if isinstance(most, Absent) else min(int(most), _MAX_GPUS)):
        part = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, position)
        if isinstance(part, Absent):  # positions without a slice answer "not found"
            continue
        uuid = nvml.ask("nvmlDeviceGetUUID", part)
        if isinstance(uuid, Absent):
            continue
        slices.append(
            Listed(
                uuid=uuid,
                name=gpu.name,
                index=gpu.index,
                pci_bus_id=gpu.pci_bus_id,
                parent_uuid=gpu.uuid,
                gpu_instance=_number(nvml.ask("nvmlDeviceGetGpuInstanceId", part)),
                compute_instance=_number(nvml.ask("nvmlDeviceGetComputeInstanceId", part)),
                profile=_profile(nvml, part),
            )
        )
    return slices


def _profile(nvml: Nvml, part: Any) -> str | None:
    """The slice's profile: the last word of its name ("… MIG 3g.40gb"), else its slices and memory."""
    name = nvml.ask("nvmlDeviceGetName", part)
    if not isinstance(name, Absent) and " MIG " in name:
        return str(name.rpartition(" MIG ")[2])
    attributes = nvml.ask("nvmlDeviceGetAttributes_v2", part)
    if isinstance(attributes, Absent):
        return None
    gpu, compute = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    part_of = "" if compute == gpu else f"{compute}c."
    return f"{part_of}{gpu}g.{-(-attributes.memorySizeMB // 1024)}gb"


def _number(value: Any) -> int | None:
    return None if isinstance(value, Absent) else int(value)


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
