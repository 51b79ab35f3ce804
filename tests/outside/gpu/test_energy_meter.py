"""Energy: from the counter where it answers, from power where not, and never twice, negative or 0 for unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.outside.gpu.energy import EnergyMeter
from trainmeter_core.readings import Absent

NONE = Absent("no answer")


def started(counter_mj: float = 5_000_000) -> EnergyMeter:
    meter = EnergyMeter()
    meter.add(counter_mj, NONE, 0.0)
    return meter


def test_the_counters_difference_is_the_energy():
    meter = started()
    assert meter.add(5_600_000, 100, 1.0) == 600
    assert meter.total_j() == 600
    assert not meter.integrated


def test_without_a_counter_power_times_time_is():
    meter = EnergyMeter()
    assert meter.add(NONE, 71, 2.0) == 142
    assert meter.total_j() == 142
    assert meter.integrated


def test_nothing_known_is_absent_and_its_time_is_kept():
    meter = EnergyMeter()
    assert meter.add(NONE, NONE, 3.0) == NONE
    assert isinstance(meter.total_j(), Absent)
    assert meter.missing_s == 3


def test_a_first_baseline_alone_is_not_zero_energy():
    assert isinstance(started().total_j(), Absent)


def test_a_gpu_that_used_no_energy_used_zero():
    meter = started()
    assert meter.add(5_000_000, 0, 1.0) == 0
    assert meter.total_j() == 0


def test_a_reset_takes_the_interval_from_power_and_goes_on_from_the_new_zero():
    meter = started()
    assert meter.add(1_000, 300, 1.0) == 300
    assert meter.add(401_000, 300, 1.0) == 400
    assert meter.total_j() == 700
    assert meter.integrated


def test_a_silent_counter_covers_its_silence_when_it_answers():
    meter = started()
    meter.add(NONE, 100, 1.0)
    meter.add(NONE, NONE, 1.0)
    assert (meter.total_j(), meter.missing_s, meter.integrated) == (100, 1, True)
    assert isinstance(meter.add(5_900_000, 100, 1.0), Absent), "not the joules of one interval"
    assert (meter.total_j(), meter.missing_s, meter.integrated) == (900, 0, False)


def test_a_reset_after_a_silence_keeps_what_power_said():
    meter = started()
    meter.add(NONE, 100, 1.0)
    meter.add(NONE, NONE, 2.0)
    meter.add(10, 100, 1.0)
    assert (meter.total_j(), meter.missing_s) == (200, 2)


STEP = st.tuples(st.booleans(), st.booleans(), st.floats(0, 1000), st.floats(0.01, 10), st.booleans())


@given(steps=st.lists(STEP, max_size=30))
def test_energy_never_exceeds_what_was_used_whatever_the_driver_does(steps):
    """With true power constant within each interval, counted and estimated parts never overlap."""
    meter, counter, used = started(0), 0.0, 0.0
    for counter_answers, power_answers, power, seconds, reset in steps:
        if reset:
            counter = 0.0
        used += power * seconds
        counter += power * seconds * 1000
        meter.add(counter if counter_answers else NONE, power if power_answers else NONE, seconds)
        total = meter.total_j()
        assert isinstance(total, Absent) or 0 <= total <= used * (1 + 1e-9) + 1e-6
    assert meter.missing_s <= sum(step[3] for step in steps) + 1e-9
    if all(step[0] for step in steps) and not any(step[4] for step in steps) and steps:
        assert meter.total_j() == pytest.approx(used)
