"""The fake driver library: compiling it, running Python as a machine that has it, and driving it from inside."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MACHINES = HERE / "machines"


def compiler() -> str | None:
    """A C compiler's path, or None where there is none (the tests then skip, saying so)."""
    return shutil.which("gcc") or shutil.which("cc")


def build(directory: Path) -> Path:
    """Compiles libnvidia-ml.so.1 into `directory` and returns that directory."""
    command = [compiler() or "cc", "-O1", "-w", "-shared", "-fPIC"]
    command += ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(directory / "libnvidia-ml.so.1"), str(HERE / "fake_nvml.c")]
    subprocess.run([*command, "-lpthread", "-lm"], check=True, timeout=120)
    return directory


def environment(library: Path, machine: str, **extra: str) -> dict[str, str]:
    """The environment in which the fake stands in for the driver, as the named machine."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    inherited = os.environ.get("LD_LIBRARY_PATH")
    env["LD_LIBRARY_PATH"] = f"{library}{os.pathsep}{inherited}" if inherited else str(library)
    env["FAKE_NVML_MACHINE"] = str(MACHINES / f"{machine}.txt")
    return {**env, **extra}


def run(library: Path, machine: str, code: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code as that machine, with `Fake` importable from `fake_nvml`."""
    env = environment(library, machine, **extra)
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


class Fake:
    """The loaded fake library. `clock` is a monotonic clock that only `advance` moves, for the sampler as for the driver."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._library.fake_advance.argtypes = [ctypes.c_double]
        self._library.fake_set.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_double]
        self._library.fake_error.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        self._library.fake_faults.argtypes = [ctypes.c_double, ctypes.c_uint64]
        self._library.fake_driver_down.argtypes = [ctypes.c_double]
        self._library.fake_xid.argtypes = [ctypes.c_int, ctypes.c_uint64]
        self._now = 0.0
        self.advance(1.0)

    def clock(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._library.fake_advance(seconds)

    def set(self, gpu: int, **values: float) -> None:
        """Changes what a device says from now on; what came before stays in its averages."""
        for key, value in values.items():
            self._library.fake_set(gpu, key.encode(), value)

    def error(self, gpu: int, function: str, code: int) -> None:
        """From now on the call answers `code` for this device; 0 heals it; "*" is every call."""
        self._library.fake_error(gpu, function.encode(), code)

    def reset_counters(self, gpu: int) -> None:
        self._library.fake_reset_counters(gpu)

    def faults(self, rate: float, seed: int = 1) -> None:
        """Random errors at this rate, on calls of this thread."""
        self._library.fake_faults(rate, seed)

    def driver_down(self, seconds: float) -> None:
        self._library.fake_driver_down(seconds)

    def xid(self, gpu: int, code: int) -> None:
        self._library.fake_xid(gpu, code)

    @property
    def misuse(self) -> int:
        """Calls that a real driver could have crashed on: stale handles, freed samples, wrong struct versions."""
        return int(self._library.fake_misuse())

    @property
    def open_samples(self) -> int:
        return int(self._library.fake_open_samples())

    @property
    def references(self) -> int:
        return int(self._library.fake_references())

    @property
    def calls(self) -> int:
        return int(self._library.fake_calls())
