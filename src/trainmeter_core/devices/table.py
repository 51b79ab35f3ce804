"""The rows of peaks.toml as `Device` values."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from trainmeter_core.devices.dtypes import column_of
from trainmeter_core.readings import Absent

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 2**30


@dataclass(frozen=True)
class Peak:
    """What one device can do at most in one number format: dense TFLOP/s (int8: TOP/s), and who says so."""

    tflops: float
    dtype: str
    source: str
    dense: bool = True

    @property
    def flops_per_s(self) -> float:
        return self.tflops * 1e12


@dataclass(frozen=True)
class Device:
    """One device, or one MIG slice of it (`profile` set), with the figures of peaks.toml.

    memory_bytes is what the whole device holds; units counts SMs or CUs; flops_per_clk is of one unit, 16-bit dense;
    reference_mhz is the clock at which the published peak holds, not the highest the driver reports.
    """

    id: str
    name: str
    family: str
    vendor: str
    memory_bytes: int
    tflops: Mapping[str, float]
    units: int | Absent
    flops_per_clk: int | Absent
    reference_mhz: float | Absent
    bandwidth_bytes_per_s: float
    mig_slices: int
    source: str
    confidence: str
    tolerance_pct: float
    note: str = ""
    profile: str | None = None

    def peak(self, dtype: str, *, allow_tf32: bool = False) -> Peak | Absent:
        """The dense peak for a number format, as torch or people name it.

        float32 with `allow_tf32` is the tf32 peak where the device has one; where it has not, the flag does nothing
        and fp32 it is. A format the device lacks is Absent: never another format's figure.
        """
        column = column_of(dtype, allow_tf32=allow_tf32)
        if isinstance(column, Absent):
            return column
        if column == "tf32" and column not in self.tflops and allow_tf32:
            column = "fp32"
        if column not in self.tflops:
            return Absent(f"no dense {column} peak is known for {self.name}; give --peak-tflops")
        return Peak(tflops=self.tflops[column], dtype=column, source=self.source)

    def ridge(self, dtype: str, *, allow_tf32: bool = False) -> float | Absent:
        """FLOPs per byte at which the dense peak and the memory bandwidth take equally long."""
        peak = self.peak(dtype, allow_tf32=allow_tf32)
        return peak if isinstance(peak, Absent) else peak.flops_per_s / self.bandwidth_bytes_per_s


@lru_cache(maxsize=1)
def devices_by_name() -> Mapping[str, Device]:
    """Every listed whole name (lower case, single spaces) and its device."""
    text = resources.files("trainmeter_core.devices").joinpath("peaks.toml").read_text(encoding="utf-8")
    found: dict[str, Device] = {}
    for row in tomllib.loads(text)["device"]:
        listed = [(name, gib) for name, gib in row["names"].items()]
        listed += [(alias, listed[0][1]) for alias in row.get("aliases", [])]
        for name, gib in listed:
            key = normalised(name)
            if key in found:
                raise ValueError(f"peaks.toml lists {name!r} twice")
            found[key] = _device(row, name=name, memory_bytes=gib * GIB)
    return found


def normalised(name: str) -> str:
    """A name in lower case with single spaces."""
    return " ".join(name.lower().split())


def _device(row: Mapping[str, Any], *, name: str, memory_bytes: int) -> Device:
    no_clock = Absent(f"no reference clock is known for {name}")
    return Device(
        id=row["id"],
        name=name,
        family=row["family"],
        vendor=row["vendor"],
        memory_bytes=memory_bytes,
        tflops=row["tflops"],
        units=row.get("units", Absent(f"no SM or CU count is listed for {name}")),
        flops_per_clk=row.get("flops_per_clk", Absent(f"no tensor rate per clock is known for {name}")),
        reference_mhz=float(row["reference_mhz"]) if "reference_mhz" in row else no_clock,
        bandwidth_bytes_per_s=float(row["bandwidth"]),
        mig_slices=row.get("mig_slices", 0),
        source=row["source"],
        confidence=row["confidence"],
        tolerance_pct=row.get("tolerance_pct", 0.0),
        note=row.get("note", ""),
    )
