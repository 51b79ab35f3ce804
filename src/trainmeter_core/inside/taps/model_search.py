"""Looks for models and optimizers among all objects of the process, and reads what a model says of itself."""

from __future__ import annotations

import gc
import sys

MYPY = False
if MYPY:
    from typing import Any


def search_heap(module_class: Any, owned: set[int]) -> Any:
    """Find the outermost module that owns most of the optimizer's parameters, when none was seen being called.

    By `type(x).__mro__`, because `isinstance` would wake lazy proxies.
    """
    modules = [found for found in gc.get_objects() if module_class in type(found).__mro__]
    inner = {id(child) for module in modules for child in module.children()}
    best, most = None, 0
    for module in modules:
        if id(module) not in inner:
            covered = sum(p.numel() for p in module.parameters() if id(p) in owned)
            if covered > most:
                best, most = module, covered
    return best


def live_optimizers() -> list[Any]:
    """Give every optimizer that there is."""
    optimizer_class = sys.modules["torch.optim.optimizer"].Optimizer
    return [found for found in gc.get_objects() if optimizer_class in type(found).__mro__]


def autocast_dtype(root: Any) -> str:
    """The dtype that autocast gives matrix products now, or an empty string where it is off."""
    torch = sys.modules["torch"]
    device = device_of(root)
    try:
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).replace("torch.", "")
    except (TypeError, RuntimeError):
        # A device that autocast does not know.
        return ""
    return ""


def device_of(root: Any) -> str:
    """The kind of device of the first parameter."""
    return next((str(p.device.type) for p in root.parameters()), "cpu")
