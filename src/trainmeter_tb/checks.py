"""The TensorBoard lines of `tm doctor`."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

from trainmeter_core.hookspecs import Check

from .tap import MODULES, TAPPED


def checks() -> list[Check]:
    """Say which packages that write event files are here, and whether the tap fits them."""
    return [_writer(module) for module in MODULES] + [_checksum()]


def _writer(module: str) -> Check:
    package = module.split(".", 1)[0]
    try:
        found = version(package)
    except PackageNotFoundError:
        return Check(package, True, "not installed; a script that uses it would say so")
    try:
        loaded = importlib.import_module(module)
        importlib.import_module(MODULES[module])
    except ImportError as error:
        return Check(package, False, found + " cannot be imported: " + str(error), "pip install -U " + package)
    cls = getattr(loaded, "EventFileWriter", None)
    missing = [name for name in (*TAPPED, "flush") if name not in vars(cls or object)]
    if missing or not hasattr(loaded, "event_pb2"):
        detail = found + " has another EventFileWriter than trainmeter knows: no " + ", ".join(missing or ["event_pb2"])
        return Check(package, False, detail, "update trainmeter; until then nothing is published there")
    return Check(package, True, found + ", the tap fits")


def _checksum() -> Check:
    try:
        found = version("google-crc32c")
    except PackageNotFoundError:
        return Check(
            "google-crc32c", True, "not installed; large event files are read slowly", "pip install google-crc32c"
        )
    return Check("google-crc32c", True, found)
