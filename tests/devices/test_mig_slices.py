"""MIG slices: a share of the parent's peak, which no public table gives."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.devices import Device, lookup, mig_slice
from trainmeter_core.readings import Absent

A100 = lookup("NVIDIA A100-SXM4-40GB")
H100 = known(lookup("NVIDIA H100 80GB HBM3"))
H200 = lookup("NVIDIA H200")


@pytest.mark.parametrize(
    ("parent", "profile", "compute", "memory"),
    [
        (A100, "1g.5gb", 1, 1),
        (A100, "1g.10gb", 1, 2),
        (A100, "2g.10gb", 2, 2),
        (A100, "3g.20gb", 3, 4),
        (A100, "4g.20gb", 4, 4),
        (A100, "7g.40gb", 7, 8),
        (H100, "1g.10gb", 1, 1),
        (H100, "1g.10gb+me", 1, 1),
        (H100, "3g.40gb", 3, 4),
        (H100, "7g.80gb", 7, 8),
        (H200, "1g.18gb", 1, 1),
        (H200, "1g.35gb", 1, 2),
        (H200, "3g.71gb", 3, 4),
        (H100, "1c.3g.40gb", 1, 4),
    ],
)
def test_peak_scales_by_compute_slices_and_bandwidth_by_memory_slices(parent, profile, compute, memory):
    part = known(mig_slice(parent, profile))
    peak = known(part.peak("bf16"))
    assert peak.tflops == pytest.approx(parent.peak("bf16").tflops * compute / 7)
    assert part.bandwidth_bytes_per_s == pytest.approx(parent.bandwidth_bytes_per_s * memory / 8)
    assert part.reference_mhz == parent.reference_mhz
    assert f"{compute}/7" in peak.source


def test_the_drivers_sm_count_is_nearer_the_truth_than_slices():
    """A 3g slice of an H100 has 60 of 132 SMs: 45.5 % of the peak, not 3/7 = 42.9 %."""
    part = known(mig_slice(H100, "3g.40gb", multiprocessors=60))
    assert known(part.peak("bf16")).tflops == pytest.approx(989.4 * 60 / 132)
    assert part.units == 60
    assert "60/132 SMs" in part.source


@pytest.mark.parametrize("profile", ["", "10gb", "3g", "8g.80gb", "3g.10gb.x", "1g.7gb", "4c.3g.40gb", "0g.10gb"])
def test_what_is_not_a_profile_of_the_parent_is_absent(profile):
    assert isinstance(mig_slice(H100, profile), Absent)


def test_a_device_without_mig_has_no_slices():
    found = mig_slice(known(lookup("NVIDIA L40S")), "1g.6gb")
    assert isinstance(found, Absent)
    assert "NVIDIA L40S" in found.reason


def test_a_slice_is_found_by_the_name_that_cuda_prints():
    found = lookup("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968 * 2**20)
    assert isinstance(found, Device)
    assert found.profile == "3g.20gb"
    assert known(found.peak("bfloat16")).tflops == pytest.approx(312 * 3 / 7)
    assert isinstance(mig_slice(found, "1g.5gb"), Absent)
