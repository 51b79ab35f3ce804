"""The MLflow lines of `tm doctor`."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

from trainmeter_core.hookspecs import Check

from .tap import MODULES, tapped_of


def checks() -> list[Check]:
    """Say which MLflow is here and whether the tap fits its stores."""
    try:
        found = version("mlflow-skinny")
    except PackageNotFoundError:
        try:
            found = version("mlflow")
        except PackageNotFoundError:
            return [Check("mlflow", True, "not installed; a script that uses it would say so")]
    missing = [problem for module in MODULES for problem in _missing(module)]
    if missing:
        detail = found + " has other stores than trainmeter knows: no " + ", ".join(missing)
        return [Check("mlflow", False, detail, "update trainmeter; until then nothing is published there")]
    return [Check("mlflow", True, found + ", the tap fits")]


def _missing(module: str) -> list[str]:
    try:
        cls = getattr(importlib.import_module(module), MODULES[module])
    except ImportError:
        # The skinny package has no SQLAlchemy: neither has its user a database.
        return []
    except AttributeError:
        return [module]
    return [MODULES[module] + "." + name for name in tapped_of(module) if name not in vars(cls)]
