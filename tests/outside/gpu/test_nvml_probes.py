"""How a failed question is asked again, and what is made of the driver's raw answers."""

from __future__ import annotations

import itertools
import math
import types

import pytest

from trainmeter_core.outside.gpu import gpm, probes
from trainmeter_core.outside.gpu.nvml import NOT_SUPPORTED, Backoff, Probe, Refused, is_lost
from trainmeter_core.readings import Absent


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def asked_at(code: int, seconds: int) -> list[int]:
    """At which seconds a question that always fails with `code` is asked, when read every second."""
    clock, asked = Clock(), []

    def fail():
        asked.append(int(clock.now))
        return Refused("no", code)

    probe = Probe(fail, clock)
    for second in range(seconds):
        clock.now = float(second)
        assert isinstance(probe.read(), Absent)
    return asked


def test_a_passing_failure_is_asked_again_at_once_and_then_ever_more_seldom():
    times = asked_at(999, 300)
    assert times[:6] == [0, 1, 2, 4, 8, 16]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) == 60


def test_what_is_not_supported_is_asked_after_a_minute_and_at_the_rarest_every_ten():
    times = asked_at(NOT_SUPPORTED, 4000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps[0] == 60
    assert max(gaps) == 600
    assert len(times) > 5


def test_one_answer_ends_the_waiting():
    backoff = Backoff(Clock())
    for _ in range(10):
        backoff.failed(999)
    assert not backoff.ready()
    backoff.worked()
    assert backoff.ready()
    backoff.failed(999)
    assert backoff.ready(), "the first failure after an answer is asked again at once"


def test_an_absence_that_is_no_refusal_does_not_slow_the_question():
    clock = Clock()
    probe: Probe[float] = Probe(lambda: Absent("no sample yet"), clock)
    assert [probe.read() for _ in range(3)] == [Absent("no sample yet")] * 3


@pytest.mark.parametrize(("code", "lost"), [(15, True), (1, True), (999, True), (3, False), (10, False)])
def test_a_lost_gpu_is_told_from_one_that_refuses(code, lost):
    assert is_lost(Refused("", code)) is lost
    assert not is_lost(Absent("lost"))
    assert not is_lost(0)


@pytest.mark.parametrize(
    ("before", "now", "seconds", "share"),
    [(0, 5e8, 1.0, 50), (7, 7, 1.0, 0), (0, 1.1e9, 1.0, 100), (10, 3e9 + 10, 3.0, 100)],
)
def test_time_counters_give_shares_of_the_interval(before, now, seconds, share):
    assert probes.share_pct(before, now, seconds) == pytest.approx(share)


@pytest.mark.parametrize(
    ("before", "now", "seconds"),
    [(5, 4, 1.0), (0, 0, 0.0), (0, 2e9, 1.0), (Absent("x"), 1, 1.0), (1, Absent("x"), 1.0)],
)
def test_a_time_counter_that_cannot_be_is_absent(before, now, seconds):
    assert isinstance(probes.share_pct(before, now, seconds), Absent)


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("sm_active_pct", 0.0, True),
        ("sm_active_pct", 100.0, True),
        ("sm_active_pct", 100.4, True),
        ("sm_active_pct", 180.0, False),
        ("sm_active_pct", -0.1, False),
        ("sm_active_pct", math.nan, False),
        ("pcie_tx_bytes_per_s", 5e4, True),
        ("pcie_tx_bytes_per_s", math.inf, False),
    ],
)
def test_a_profiling_value_that_cannot_be_is_absent(name, value, good):
    reading = gpm._reading(name, types.SimpleNamespace(nvmlReturn=0, value=value))
    assert isinstance(reading, Absent) is not good


def test_a_profiling_value_counts_only_with_its_own_return_code():
    assert isinstance(gpm._reading("sm_active_pct", types.SimpleNamespace(nvmlReturn=3, value=55.0)), Refused)
