"""Which GPUs CUDA_VISIBLE_DEVICES means, as UUIDs; pure functions of the variable and the machine's list.

NVML ignores the variable and counts in PCI order, which need not be CUDA's. The grammar is CUDA's, as documented and as
torch reads it: integers (digits at the start count), "GPU-" or "MIG-" prefixes of UUIDs, "MIG-GPU-<uuid>/<gi>/<ci>".
The list ends at the first entry that names nothing, and a repeated entry empties it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainmeter_core.outside.gpu.inventory import Listed

_ORDINAL = re.compile(r"[+-]?\d+")
_OLD_MIG = re.compile(r"MIG-(?P<gpu>GPU-[^/]+)/(?P<gi>\d+)/(?P<ci>\d+)")


@dataclass(frozen=True)
class Selection:
    """The job's GPUs in CUDA's order, and what was assumed to find them, if anything."""

    gpus: tuple[Listed, ...]
    assumed: str | None = None


def select(listed: Sequence[Listed], visible: str | None, order: str | None = None) -> Selection | Absent:
    """The GPUs of a job with CUDA_VISIBLE_DEVICES `visible` (None: not set) and CUDA_DEVICE_ORDER `order`.

    Absent where the variable hides every GPU, or names none of this machine's (as in a container that sees fewer).
    """
    if visible is None:
        return _all(listed)
    entries = visible.strip().split(",")
    if not visible.strip():
        return Absent("CUDA_VISIBLE_DEVICES is empty: the job sees no GPU")
    by_ordinal = _ORDINAL.match(entries[0].strip()) is not None
    ranked, assumed = _ranked(listed, order) if by_ordinal else (list(listed), None)
    chosen: list[Listed] = []
    for entry in entries:
        found = _ordinal(ranked, listed, entry.strip()) if by_ordinal else _by_uuid(listed, entry.strip())
        if found is None:
            break
        if found in chosen:
            return Absent(f"CUDA_VISIBLE_DEVICES={visible} names a GPU twice, so CUDA sees none")
        chosen.append(found)
    if not chosen:
        return Absent(f"CUDA_VISIBLE_DEVICES={visible} names no GPU of this machine")
    every_gpu = len(chosen) == len(ranked)
    return Selection(tuple(chosen), None if every_gpu else assumed)


def _all(listed: Sequence[Listed]) -> Selection | Absent:
    """Without the variable: every whole GPU; but CUDA shows only the first MIG slice once there is one."""
    slices = [gpu for gpu in listed if gpu.parent_uuid]
    if slices:
        return Selection((slices[0],), "CUDA shows one MIG slice when CUDA_VISIBLE_DEVICES is not set: the first")
    whole = tuple(gpu for gpu in listed if not gpu.mig_enabled)
    return Selection(whole) if whole else Absent("MIG is on, and no slice is set up")


def _ranked(listed: Sequence[Listed], order: str | None) -> tuple[list[Listed], str | None]:
    """Whole GPUs in the order that CUDA counts them, and what that rests on."""
    whole = [gpu for gpu in listed if gpu.parent_uuid is None]
    by_bus = sorted(whole, key=lambda gpu: (gpu.pci_bus_id, gpu.index))
    if order == "PCI_BUS_ID" or len({gpu.name for gpu in whole}) == 1:
        return by_bus, None
    by_speed = sorted(by_bus, key=lambda gpu: -gpu.speed)
    return by_speed, "this machine's GPUs differ, and CUDA counts the fastest first: set CUDA_DEVICE_ORDER=PCI_BUS_ID"


def _ordinal(ranked: Sequence[Listed], listed: Sequence[Listed], entry: str) -> Listed | None:
    match = _ORDINAL.match(entry)
    if match is None or not 0 <= int(match[0]) < len(ranked):
        return None
    return _or_first_slice(ranked[int(match[0])], listed)


def _by_uuid(listed: Sequence[Listed], entry: str) -> Listed | None:
    old = _OLD_MIG.fullmatch(entry)
    if old is not None:
        wanted = (old["gpu"], int(old["gi"]), int(old["ci"]))
        matches = [gpu for gpu in listed if (gpu.parent_uuid, gpu.gpu_instance, gpu.compute_instance) == wanted]
    elif entry.startswith(("GPU-", "MIG-")):
        matches = [gpu for gpu in listed if gpu.uuid.startswith(entry)]
    else:
        matches = []
    return _or_first_slice(matches[0], listed) if len(matches) == 1 else None


def _or_first_slice(gpu: Listed, listed: Sequence[Listed]) -> Listed:
    """A GPU with MIG on stands for its first slice: work cannot run on the whole of it."""
    if not gpu.mig_enabled:
        return gpu
    return next((part for part in listed if part.parent_uuid == gpu.uuid), gpu)
