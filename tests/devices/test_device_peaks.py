"""The table of peaks: every row agrees with its own arithmetic, and formats never stand in for one another."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.devices import Device, Peak, devices_by_name, lookup
from trainmeter_core.devices.dtypes import COLUMNS
from trainmeter_core.readings import Absent

ROWS = {device.id: device for device in reversed(list(devices_by_name().values()))}


def device(name: str) -> Device:
    return known(lookup(name))


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_units_times_rate_times_clock_is_the_published_peak(row):
    """SMs x FLOPs/clk x reference clock = the 16-bit dense peak, within the row's own tolerance."""
    if isinstance(row.reference_mhz, Absent) or isinstance(row.units, Absent):
        assert row.confidence in {"low", "published"}
        return
    published = row.tflops.get("bf16", row.tflops.get("fp16"))
    computed = row.units * row.flops_per_clk * row.reference_mhz * 1e6 / 1e12
    assert row.tolerance_pct > 0
    assert computed == pytest.approx(published, rel=row.tolerance_pct / 100)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_every_row_names_its_source_and_how_sure_it_is(row):
    assert row.source
    assert row.confidence in {"arithmetic", "published", "low"}
    assert set(row.tflops) <= set(COLUMNS)
    assert all(tflops > 0 for tflops in row.tflops.values())
    if row.confidence == "low":
        assert row.note or "no public datasheet" in row.source


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_no_row_holds_a_sparse_figure(row):
    """Dense 8-bit is about twice dense 16-bit, dense tf32 half of it; a sparse figure would be twice that again."""
    bf16 = row.tflops.get("bf16")
    if bf16 is None:
        return
    if "fp8" in row.tflops:
        assert row.tflops["fp8"] == pytest.approx(2 * bf16, rel=0.02)
    if "tf32" in row.tflops:
        assert row.tflops["tf32"] == pytest.approx(bf16 / 2, rel=0.02)


@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("NVIDIA H100 80GB HBM3", 295),
        ("NVIDIA H200", 206),
        ("NVIDIA H100 PCIe", 378),
        ("NVIDIA H100 NVL", 214),
        ("NVIDIA A100-SXM4-80GB", 153),
        ("NVIDIA A100-SXM4-40GB", 201),
        ("NVIDIA L40S", 419),
        ("NVIDIA L4", 403),
        ("NVIDIA B200", 281),
        ("AMD Instinct MI300X", 247),
    ],
)
def test_ridge_is_dense_bf16_peak_over_bandwidth(name, ridge):
    assert round(known(device(name).ridge("bf16"))) == ridge


@pytest.mark.parametrize(("name", "ridge"), [("Tesla V100-SXM2-16GB", 139), ("Tesla T4", 203)])
def test_ridge_of_devices_without_bf16_is_that_of_fp16(name, ridge):
    assert round(known(device(name).ridge("fp16"))) == ridge
    assert isinstance(device(name).ridge("bf16"), Absent)


def test_the_sparse_ridge_of_590_that_a_public_book_gives_is_not_ours():
    assert known(device("NVIDIA H100 80GB HBM3").ridge("bf16")) < 300


@pytest.mark.parametrize(
    ("dtype", "column", "tflops"),
    [
        ("bfloat16", "bf16", 989.4),
        ("torch.bfloat16", "bf16", 989.4),
        ("float16", "fp16", 989.4),
        ("float32", "fp32", 66.9),
        ("tf32", "tf32", 494.7),
        ("float8_e4m3fn", "fp8", 1978.9),
        ("torch.float8_e5m2", "fp8", 1978.9),
        ("int8", "int8", 1978.9),
    ],
)
def test_dtypes_are_known_by_torchs_names_and_peoples(dtype, column, tflops):
    peak = device("NVIDIA H200").peak(dtype)
    assert peak == Peak(tflops=tflops, dtype=column, dense=True, source="NVIDIA H200 datasheet")


def test_float32_is_tf32_only_where_matmuls_may_use_it():
    assert known(device("NVIDIA H200").peak("float32", allow_tf32=True)).dtype == "tf32"
    assert known(device("NVIDIA H200").peak("float32", allow_tf32=False)).dtype == "fp32"


def test_allowing_tf32_changes_nothing_where_the_hardware_has_none():
    assert known(device("Tesla V100-SXM2-16GB").peak("float32", allow_tf32=True)).dtype == "fp32"
    assert isinstance(device("Tesla V100-SXM2-16GB").peak("tf32"), Absent)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Tesla T4", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB", "float8_e4m3fn"),
        ("NVIDIA H200", "nvfp4"),
        ("NVIDIA H200", "float64"),
        ("NVIDIA H200", "no such format"),
        ("NVIDIA B300 SXM6 AC", "int8"),
    ],
)
def test_a_format_without_a_known_peak_is_absent_with_a_reason(name, dtype):
    peak = device(name).peak(dtype)
    assert isinstance(peak, Absent)
    assert dtype.split("_")[0][:4] in str(peak) or device(name).name in str(peak)


def test_a_device_whose_clock_is_unknown_has_no_reference_clock():
    """148 TFLOP/s over 78 SMs at an H100's rate would be 463 MHz: the H20's tensor rate is capped."""
    assert isinstance(device("NVIDIA H20").reference_mhz, Absent)
