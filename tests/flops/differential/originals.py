"""The packages whose counts ours are compared with; scripts/differential.sh installs them beside the environment.

Two cannot be imported whole without what they run on. Their formulas are imported unmodified past it:

- verl's package imports Ray; here `verl` and `verl.utils` are packages without their own __init__
- torchtitan's mixture layers import kernels written in Triton, which a CPU build of torch comes without
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLACE = Path(sys.prefix) / "differential"


def original(module: str) -> Any:
    """An original's module; the test is skipped where that is not installed, but never in CI."""
    _prepare()
    if os.environ.get("CI") == "true":
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"{module.partition('.')[0]} is not installed", exc_type=ImportError)


def _prepare() -> None:
    if not PLACE.is_dir() or str(PLACE) in sys.path:
        return
    sys.path.append(str(PLACE))  # behind everything: what the environment has goes first
    for name in ("verl", "verl.utils"):
        package = ModuleType(name)
        package.__path__ = [str(PLACE.joinpath(*name.split(".")))]
        sys.modules[name] = package
    kernels = ModuleType("torchtitan.distributed.minimal_async_ep.kernels")
    kernels.__getattr__ = _kernel  # type: ignore[method-assign]  # PEP 562
    sys.modules[kernels.__name__] = kernels


def _kernel(name: str) -> None:
    """Any kernel's name, for whoever imports it; none of them is called by a formula."""
    if name.startswith("__"):
        raise AttributeError(name)
