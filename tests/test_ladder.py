"""The ladder's formulas against the reference vectors, and the sentences of its gaps."""

from __future__ import annotations

import itertools
import math

import pytest

from tests.known import known
from trainmeter_core import ladder
from trainmeter_core.ladder import Counters, Ladder
from trainmeter_core.readings import Absent, present

NONE = Absent("no such counter")
H100_PEAK, H100_BANDWIDTH, H100_CLOCK = 989.4e12, 3.352e12, 1830
# A real H100's DCGM dump (guilbaults/slurm-job-exporter#30); the clock was not given and is taken as the reference.
V7 = Counters(
    gpu_util_pct=100,
    driver_util_pct=100,
    sm_active_pct=91.26,
    tensor_active_pct=27.94,
    dram_active_pct=21.37,
    sm_clock_mhz=1830,
    power_w=572,
    power_limit_w=700,
)


@pytest.mark.parametrize(
    ("tensor", "clock", "reference", "expected"),
    [(27.94, 1830, 1830, 27.94), (27.94, 1500, 1830, 22.90), (27.94, 1980, 1830, 30.23), (27.94, 1980, 1980, 27.94)],
    ids=["V1", "V2", "V3", "V4"],
)
def test_ofu_is_tensor_activity_in_units_of_the_peak(tensor, clock, reference, expected):
    assert ladder.ofu_pct(tensor, clock, reference) == pytest.approx(expected, abs=0.005)


def test_v7_a_real_h100_window():
    """276.4 TFLOP/s observed, 0.716 TB/s of memory traffic, 386 FLOP/byte against a ridge of 295."""
    ofu = ladder.ofu_pct(V7.tensor_active_pct, V7.sm_clock_mhz, H100_CLOCK)
    flops = known(ladder.observed_flops_per_s(ofu, H100_PEAK, "bf16"))
    assert flops / 1e12 == pytest.approx(276.4, abs=0.05)
    assert known(ladder.dram_bytes_per_s(V7.dram_active_pct, H100_BANDWIDTH)) / 1e12 == pytest.approx(0.716, abs=0.001)
    assert ladder.observed_intensity(flops, V7.dram_active_pct, H100_BANDWIDTH) == pytest.approx(386, abs=0.5)
    assert round(known(ladder.ridge_intensity(H100_PEAK, H100_BANDWIDTH))) == 295


def test_the_ladder_is_not_assumed_monotone():
    """V3: a clock of 1980 against the reference of 1830 puts OFU above tensor activity, and no value is clamped."""
    seen = ladder.climb(V7._replace(sm_clock_mhz=1980), reference_mhz=1830, hfu_pct=35.0, mfu_pct=31.0)
    assert known(seen.hfu) > known(seen.ofu) > known(seen.tensor_active)
    points = {(gap.upper, gap.lower): gap.points for gap in ladder.gaps(seen)}
    assert points["3_tensor_active", "4_ofu"] < 0
    assert points["4_ofu", "5_hfu"] < 0
    assert ladder.climb(
        V7._replace(tensor_active_pct=99.0, sm_clock_mhz=1980), reference_mhz=1830, hfu_pct=NONE, mfu_pct=NONE
    ).ofu == pytest.approx(107.1, abs=0.05)


@pytest.mark.parametrize(
    "reading",
    [
        ladder.ofu_pct(NONE, 1830, 1830),
        ladder.ofu_pct(50, NONE, 1830),
        ladder.ofu_pct(50, 1830, NONE),
        ladder.observed_flops_per_s(NONE, 1e15, "bf16"),
        ladder.observed_flops_per_s(50, NONE, "bf16"),
        ladder.dram_bytes_per_s(NONE, 1e12),
        ladder.dram_bytes_per_s(20, NONE),
        ladder.observed_intensity(NONE, 20, 1e12),
        ladder.observed_intensity(1e14, NONE, 1e12),
        ladder.model_intensity(NONE, 1),
        ladder.model_intensity(1e12, NONE),
        ladder.ridge_intensity(NONE, 1e12),
        ladder.ridge_intensity(1e15, NONE),
    ],
)
def test_a_missing_input_makes_the_result_absent_with_its_reason(reading):
    assert reading == NONE


def test_a_zero_is_a_measurement_and_not_a_missing_value():
    assert ladder.ofu_pct(0, 1830, 1830) == 0
    assert ladder.observed_flops_per_s(0, H100_PEAK, "bf16") == 0


@pytest.mark.parametrize("dram", [0, 0.99])
def test_intensity_is_absent_where_memory_is_idle(dram):
    assert isinstance(ladder.observed_intensity(1e14, dram, 1e12), Absent)
    assert present(ladder.observed_intensity(1e14, 1.0, 1e12))


def test_divisions_by_zero_are_absent():
    assert isinstance(ladder.model_intensity(1e12, 0), Absent)


def test_plain_fp32_has_no_observed_flops():
    assert isinstance(ladder.observed_flops_per_s(50, 66.9e12, "fp32"), Absent)
    assert present(ladder.observed_flops_per_s(50, 494.7e12, "tf32"))


def test_each_pair_of_neighbours_has_one_sentence_in_each_direction():
    keys = ["0_wall"] + [key for key, _ in ladder.RUNGS]
    for upper, lower in itertools.pairwise(keys):
        for points in (30.0, -30.0):
            sentence = ladder.gap_sentence(upper, lower, points)
            assert "30" in sentence
            assert sentence.endswith(".")
            assert sentence.count(". ") == 0, "one sentence, not two"
            assert "-30" not in sentence
        assert ladder.gap_sentence(upper, lower, 0.5) == "Nothing is lost here."


def test_a_gpu_without_profiling_counters_says_that_it_cannot_say_where():
    """An A100 has driver utilization and MFU only."""
    seen = ladder.climb(Counters(driver_util_pct=98), reference_mhz=1410, hfu_pct=NONE, mfu_pct=41)
    assert seen.gpu_util == 98
    (idle, rest) = ladder.gaps(seen)
    assert (idle.upper, idle.lower) == ("0_wall", "1_gpu_util")
    assert (rest.upper, rest.lower, rest.points) == ("1_gpu_util", "6_mfu", 57)
    assert "not available on this GPU" in rest.sentence


def test_the_gap_from_ofu_straight_to_mfu_has_its_own_sentence():
    seen = ladder.climb(V7, reference_mhz=1830, hfu_pct=NONE, mfu_pct=20)
    last = ladder.gaps(seen)[-1]
    assert (last.upper, last.lower) == ("4_ofu", "6_mfu")
    assert "recomputed activations" in last.sentence


def test_gaps_add_up_to_the_whole_way_from_100_percent_to_mfu():
    seen = Ladder(97.0, 80.0, 45.0, 48.0, 44.0, 36.0)
    assert math.fsum(gap.points for gap in ladder.gaps(seen)) == pytest.approx(100 - 36)


def test_an_empty_ladder_has_no_gaps():
    assert ladder.gaps(Ladder(NONE, NONE, NONE, NONE, NONE, NONE)) == []


def test_spread_keeps_the_straggler_and_skips_what_is_unknown():
    seen = ladder.spread([90, NONE, 30, 60])
    assert (seen.mean, seen.least, seen.greatest, seen.known, seen.total) == (60, 30, 90, 3, 4)
    assert ladder.spread([NONE, NONE]).mean == NONE
    assert isinstance(ladder.spread([]).mean, Absent)
