"""Lookup by whole names and memory, against the ways in which public tables go wrong."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.devices import Device, by_short_name, devices_by_name, lookup
from trainmeter_core.readings import Absent

GIB = 2**30


def bf16(name: str) -> float:
    return known(known(lookup(name)).peak("bfloat16")).tflops


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("NVIDIA H200", 989.4), ("NVIDIA H200 NVL", 835.5), ("NVIDIA H100 NVL", 835.5), ("NVIDIA H100 80GB HBM3", 989.4)],
)
def test_hopper_peaks_are_dense_not_the_sparse_ones_of_lightning(name, tflops):
    """Lightning 2.6.6 has 2000, 1700 and 1978.8 for these; Lightning-AI/pytorch-lightning#21677."""
    assert bf16(name) == tflops


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX A6000", 154.8),
        ("NVIDIA A40", 149.7),
        ("NVIDIA GeForce RTX 3090", 71.2),
    ],
)
def test_geforce_and_workstation_bf16_is_the_tensor_rate_not_lightnings_cuda_core_rate(name, tflops):
    """Lightning 2.6.6: 82.6, 38.7, 37.4, 35.6."""
    assert bf16(name) == tflops


def test_a10g_is_not_an_a10_as_in_lightning_composer_and_trl():
    assert bf16("NVIDIA A10G") == 70.0
    assert bf16("NVIDIA A10") == 125.0


def test_l40s_and_l40_are_not_an_l4_as_in_lightning_and_nanochat():
    """Both match names by substring, so that "L40" finds "L4" and gets 121."""
    assert bf16("NVIDIA L4") == 121.0
    assert bf16("NVIDIA L40") == 181.05
    assert bf16("NVIDIA L40S") == 362.05


def test_l40s_is_not_the_a100_that_torchtitans_fallback_makes_of_it():
    assert bf16("NVIDIA L40S") != 312.0


@pytest.mark.parametrize(("name", "tflops"), [("NVIDIA H800", 989.0), ("NVIDIA H800 PCIe", 756.0)])
def test_h800_values_are_not_swapped_as_in_nanochat(name, tflops):
    assert bf16(name) == tflops


def test_rtx_a4000_is_not_an_a40_as_in_nanochat():
    assert isinstance(lookup("NVIDIA RTX A4000"), Absent)


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("NVIDIA B300 SXM6 AC", "bf16", 2250.0),
        ("NVIDIA GB300", "bf16", 2500.0),
        ("NVIDIA H20", "bf16", 148.0),
        ("NVIDIA A10", "bf16", 125.0),
        ("Tesla T4", "fp16", 65.0),
        ("Tesla V100-SXM2-16GB", "fp16", 125.0),
    ],
)
def test_devices_that_nanochat_divides_by_infinity_have_a_finite_peak(name, dtype, tflops):
    """nanochat, verl and NeMo AutoModel return inf for these, so that MFU prints 0."""
    assert known(known(lookup(name)).peak(dtype)).tflops == tflops


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA GeForce RTX 4090", "NVIDIA A10", "AMD Instinct MI300X"]
)
def test_the_peak_is_not_312_everywhere_as_in_nanogpt(name):
    assert bf16(name) != 312.0


@pytest.mark.parametrize(("name", "tflops"), [("NVIDIA H100 PCIe", 756.0), ("NVIDIA H100 NVL", 835.5)])
def test_h100_pcie_and_nvl_do_not_get_the_sxm_figure_of_nemo_and_verl(name, tflops):
    assert bf16(name) == tflops


def test_h200_nvl_is_not_an_h200_sxm_as_in_composer_and_torchtitan():
    assert bf16("NVIDIA H200 NVL") == 835.5


def test_int8_and_fp8_of_an_a100_are_known_or_absent_not_a_missing_key_as_in_composer():
    a100 = known(lookup("NVIDIA A100-SXM4-80GB"))
    assert known(a100.peak("int8")).tflops == 624.0
    assert isinstance(a100.peak("fp8"), Absent)


@pytest.mark.parametrize("name", ["AMD Instinct MI300X", "AMD Instinct MI325X"])
def test_mi300x_is_1307_not_the_1300_of_torchtitan_or_1336_of_nemo(name):
    assert bf16(name) == 1307.4


@pytest.mark.parametrize(("name", "tflops"), [("AMD Instinct MI350X", 2300.0), ("AMD Instinct MI355X", 2516.6)])
def test_mi350_is_not_an_a100_as_in_torchtitan(name, tflops):
    """With the 312 fallback an MI355X job shows 563 % MFU; AMD-AGI/Primus#772."""
    assert bf16(name) == tflops


def test_rtx_pro_6000_is_503_8_not_the_500_of_trl():
    assert bf16("NVIDIA RTX PRO 6000 Blackwell Workstation Edition") == 503.8
    assert bf16("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition") == 438.9


def test_a100_is_312_not_the_halved_156_of_olmo_core():
    """The table halved every entry as if sparse; allenai/OLMo-core#614."""
    assert bf16("NVIDIA A100-SXM4-80GB") == 312.0


def test_b300_is_not_an_a100_as_in_olmo_core():
    """The fallback gave 105.7 % MFU where 14.66 % was true: a factor of 7.21; allenai/OLMo-core#817."""
    assert bf16("NVIDIA B300 SXM6 AC") / 312 == pytest.approx(7.212, abs=0.001)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "H100",
        "NVIDIA H100",
        "NVIDIA GB10",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A10G-24Q",
        "cpu",
    ],
)
def test_an_unknown_name_is_absent_and_says_what_to_give(name):
    found = lookup(name)
    assert isinstance(found, Absent)
    assert "--peak-tflops" in found.reason


def test_no_listed_name_is_found_by_a_part_of_it():
    """For every listed name, each proper prefix and suffix by words is absent unless listed itself."""
    listed = devices_by_name()
    for name in listed:
        words = name.split()
        for cut in range(1, len(words)):
            for part in (" ".join(words[:cut]), " ".join(words[cut:])):
                assert part in listed or isinstance(lookup(part), Absent), part


def test_case_and_spacing_do_not_matter():
    assert known(lookup("  nvidia   h100 80gb hbm3 ")).id == "h100-sxm"


def test_names_of_drivers_before_the_vendor_prefix_are_listed():
    assert known(lookup("A100-SXM4-40GB")).id == "a100-sxm-40gb"


def test_the_reported_memory_may_be_short_of_the_printed_one():
    """What drivers report: ECC takes 6 % of an L40S, firmware 8 % of a T4."""
    assert isinstance(lookup("NVIDIA L40S", 46068 * 2**20), Device)
    assert isinstance(lookup("Tesla T4", 15109 * 2**20), Device)
    assert isinstance(lookup("NVIDIA H200", 143771 * 2**20), Device)
    assert isinstance(lookup("NVIDIA H100 80GB HBM3", 81559 * 2**20), Device)


def test_a_memory_size_that_contradicts_the_name_is_absent():
    found = lookup("NVIDIA A10", 12 * GIB)
    assert isinstance(found, Absent)
    assert "12.0 GiB" in found.reason


def test_a_short_name_is_for_people_and_must_be_unambiguous():
    assert known(by_short_name("l40s")).id == "l40s"
    assert known(by_short_name("h100-sxm")).id == "h100-sxm"
    assert known(by_short_name("NVIDIA H200")).id == "h200-sxm"
    assert known(by_short_name("mi300x")).name == "AMD Instinct MI300X"
    several = by_short_name("H100")
    assert isinstance(several, Absent)
    assert all(variant in several.reason for variant in ("h100-sxm", "h100-pcie", "h100-nvl"))
    assert isinstance(by_short_name("A10"), Device)
    assert isinstance(by_short_name("warp drive"), Absent)
