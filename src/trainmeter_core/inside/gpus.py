"""Which GPUs a model lies on, and whether its fp32 matmuls may use TF32; asked once, without a wait."""

from __future__ import annotations

import sys

MYPY = False
if MYPY:
    from typing import Any


def gpus_of(root: Any) -> list[str]:
    """Each GPU's UUID as torch prints it, without the driver's "GPU-" or "MIG-"; "cuda:0" where torch does not tell it.

    The parameters lie there already, so CUDA is up in this process: nothing is initialized by the question.
    """
    devices = {p.device for p in root.parameters() if p.device.type == "cuda"}
    return [_uuid(device) for device in sorted(devices, key=str)]


def _uuid(device: Any) -> str:
    try:
        return str(sys.modules["torch"].cuda.get_device_properties(device).uuid)
    except (AttributeError, AssertionError, RuntimeError):
        # A torch before the UUIDs, or one built without CUDA.
        return str(device)


def fp32_may_be_tf32() -> bool:
    """Say whether the user let matmuls of fp32 tensors run on the tensor cores."""
    try:
        return bool(sys.modules["torch"].get_float32_matmul_precision() != "highest")
    except (AttributeError, RuntimeError):
        # An old torch; or torch's old and new settings were both used and contradict each other.
        return False
