"""What `tm TARGET args…` runs: which command line, and which Python."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.machinery import PathFinder

_SOURCE = (".py", ".pyw")
_ARCHIVE = (".pyz", ".pyzw", ".zip")


def command_for(target: str, args: list[str], *, module: bool, python: str | None) -> list[str]:
    """The command line for `tm -m TARGET args…` (`module`) or `tm TARGET args…`.

    A Python file, a folder or archive with a `__main__`, and `-` (the script on stdin) run with `python`, or with the
    Python that `choose_python` finds; anything else is a command and runs as it is.
    """
    if module:
        return [python or choose_python(), "-m", target, *args]
    if is_python_target(target):
        return [python or choose_python(), target, *args]
    return [target, *args]


def is_python_target(target: str) -> bool:
    """True for what `python TARGET` can run; a missing `x.py` counts, Python itself says that it is missing."""
    if target == "-" or target.endswith(_SOURCE):
        return True
    if os.path.isdir(target):
        return os.path.isfile(os.path.join(target, "__main__.py"))
    if target.endswith(_ARCHIVE) and os.path.isfile(target):
        import zipfile

        try:
            with zipfile.ZipFile(target) as archive:
                return "__main__.py" in archive.namelist()
        except (OSError, zipfile.BadZipFile):  # a damaged or unreadable archive: not a program
            return False
    return False


def choose_python() -> str:
    """The Python a user means by `python`: the one that has the training stack.

    tm's own when torch is installed beside it or its environment is the active one, else the active environment's,
    else the one on PATH. Nothing is imported or started to find out.
    """
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if _torch_beside_us() or (active and _same_folder(active, sys.prefix)):
        return sys.executable
    if active:
        candidate = os.path.join(active, "bin", "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which("python3") or shutil.which("python") or sys.executable


def _torch_beside_us() -> bool:
    # Not the working directory: a folder named torch there is somebody's own.
    try:
        here = os.getcwd()
    except OSError:  # the directory is gone
        here = ""
    spec = PathFinder.find_spec("torch", [entry for entry in sys.path if entry not in ("", here)])
    return spec is not None and spec.origin is not None


def _same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
