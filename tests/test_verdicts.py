"""Verdicts: what is flagged, with what cause, and what must not be."""

from __future__ import annotations

import pytest

from trainmeter_core.ladder import Counters, Ladder, climb
from trainmeter_core.readings import Absent
from trainmeter_core.verdicts import THROTTLE_CAUSES, verdicts, without_stuck_counters

NONE = Absent("no such counter")
GOOD = Counters(
    gpu_util_pct=99,
    driver_util_pct=100,
    sm_active_pct=93,
    tensor_active_pct=55,
    dram_active_pct=40,
    sm_clock_mhz=1800,
    power_w=640,
    power_limit_w=700,
    throttle_pct=dict.fromkeys(THROTTLE_CAUSES, 0),
    samples=10,
)


def judged(counters=GOOD, *, mfu=45.0, intensity=400.0, ridge=206.0, dtype="bf16", steps=20, reference=1830):
    seen: Ladder = climb(counters, reference_mhz=reference, hfu_pct=NONE, mfu_pct=mfu)
    return verdicts(
        counters,
        seen,
        reference_mhz=reference,
        observed_intensity=intensity,
        ridge=ridge,
        peak_dtype=dtype,
        steps=steps,
    )


def codes(*args, **kwargs):
    return [verdict.code for verdict in judged(*args, **kwargs)]


def test_a_healthy_window_has_no_verdict():
    assert codes() == []


def test_nothing_known_gives_no_verdict():
    assert codes(Counters(), mfu=NONE, intensity=NONE, ridge=NONE, reference=NONE) == []


def test_mfu_more_than_15_percent_above_ofu_is_a_wrong_count_or_peak():
    ofu = 55 * 1800 / 1830
    assert codes(mfu=1.14 * ofu) == []
    assert codes(mfu=1.16 * ofu) == ["mfu_over_ofu"]


def test_mfu_is_not_held_against_ofu_for_plain_fp32():
    """Matmuls without TF32 run on the CUDA cores, so tensor activity is 0 in a healthy run."""
    assert "mfu_over_ofu" not in codes(GOOD._replace(tensor_active_pct=0), dtype="fp32")


def test_mfu_above_100_is_an_error_also_without_counters():
    """The 105.7 % of allenai/OLMo-core#817."""
    (verdict,) = judged(Counters(), mfu=105.7)
    assert (verdict.code, verdict.level) == ("mfu_over_100", "error")
    assert codes(Counters(), mfu=100.0) == []


HANG = GOOD._replace(
    sm_active_pct=12, tensor_active_pct=0, dram_active_pct=0.1, power_w=72, power_limit_w=400, sm_clock_mhz=1830
)


def test_a_spinning_collective_is_called_a_hang():
    """Utilization 100 %, about 70 W: NVIDIA/nccl#968."""
    assert codes(HANG, mfu=NONE, steps=0)[0] == "hang"
    assert codes(HANG, mfu=NONE, steps=None)[0] == "hang"


@pytest.mark.parametrize(
    "change",
    [
        {"power_w": 250},
        {"power_w": NONE},
        {"power_limit_w": NONE},
        {"tensor_active_pct": 8},
        {"tensor_active_pct": NONE},
        {"driver_util_pct": 60},
    ],
)
def test_it_is_not_a_hang_without_the_whole_signature(change):
    assert "hang" not in codes(HANG._replace(**change), mfu=NONE, steps=0)


def test_a_run_that_makes_steps_does_not_hang():
    assert "hang" not in codes(HANG, mfu=NONE, steps=3)


@pytest.mark.parametrize("cause", ["hw_thermal", "power_brake", "hw_slowdown", "thermal"])
def test_heat_and_power_supplies_are_warned_of_with_their_cause(cause):
    (verdict,) = judged(GOOD._replace(throttle_pct={cause: 40.0}))
    assert (verdict.code, verdict.level) == ("throttled_" + cause, "warning")
    assert THROTTLE_CAUSES[cause][0] in verdict.sentence
    assert "40 %" in verdict.sentence


def test_the_power_limit_is_mentioned_only_when_it_costs_clock():
    """A busy H100 sits at its power limit all the time."""
    assert codes(GOOD._replace(throttle_pct={"power_cap": 100.0})) == []
    slow = GOOD._replace(throttle_pct={"power_cap": 100.0}, sm_clock_mhz=1500)
    assert codes(slow, mfu=44) == ["throttled_power_cap"]


def test_the_worst_of_several_causes_is_named():
    both = GOOD._replace(throttle_pct={"power_cap": 90.0, "hw_thermal": 20.0}, sm_clock_mhz=1200)
    assert codes(both, mfu=30)[0] == "throttled_hw_thermal"


def test_short_or_unknown_throttling_is_no_verdict():
    assert codes(GOOD._replace(throttle_pct={"thermal": 4.0, "hw_thermal": NONE})) == []


STUCK = GOOD._replace(gpu_util_pct=0, sm_active_pct=0, tensor_active_pct=0, dram_active_pct=0)


def test_counters_stuck_at_zero_are_called_stuck_and_taken_out():
    """After Xid 31 the profiling fields read 0 while utilization is 100 %: NVIDIA/DCGM#303."""
    assert "counters_stuck" in codes(STUCK, mfu=NONE)
    cleaned = without_stuck_counters(STUCK)
    for value in (cleaned.sm_active_pct, cleaned.tensor_active_pct, cleaned.dram_active_pct):
        assert isinstance(value, Absent)
    assert cleaned.gpu_util_pct == 100
    assert codes(cleaned, mfu=45) == []


@pytest.mark.parametrize("change", [{"samples": 4}, {"sm_active_pct": 0.01}, {"driver_util_pct": 10}])
def test_a_true_zero_is_not_called_stuck(change):
    assert without_stuck_counters(STUCK._replace(**change)) == STUCK._replace(**change)


def test_below_the_ridge_with_busy_memory_is_memory_bound():
    memory = GOOD._replace(tensor_active_pct=15, dram_active_pct=75)
    assert codes(memory, mfu=12, intensity=60) == ["memory_bound"]
    assert codes(memory, mfu=12, intensity=NONE) == []


def test_a_busy_gpu_with_nothing_near_a_limit_is_launch_bound():
    idle = GOOD._replace(tensor_active_pct=8, dram_active_pct=12)
    assert codes(idle, mfu=7) == ["launch_bound"]
    assert codes(idle._replace(driver_util_pct=30), mfu=7) == []


def test_errors_come_first_and_every_sentence_is_one_sentence():
    found = judged(
        GOOD._replace(tensor_active_pct=8, dram_active_pct=12, throttle_pct={"thermal": 50.0}), mfu=130, steps=1
    )
    assert [verdict.level for verdict in found] == ["error", "error", "warning", "info"]
    for verdict in found:
        assert verdict.sentence.endswith(".")
        assert ". " not in verdict.sentence
