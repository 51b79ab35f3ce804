"""The rank that the others wait for is named by what it does meanwhile; ranks that are alike name nobody."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.outside.straggler import RankTimes


def times_of(*waits: float, kind: str = "data_wait", n: int = 50) -> RankTimes:
    """Ranks of 100 s each, which spend so many of them on one kind and the rest in their steps."""
    times = RankTimes()
    for rank, wait in enumerate(waits):
        for part in (0.25, 0.75):
            seconds = {"step": part * (100 - wait), kind: part * wait, "checkpoint": None}
            times.stepped(rank, {"startup": False, "n": n, "wall_s": part * 100, "time": seconds})
    return times


def test_a_rank_that_waits_for_data_holds_up_the_others():
    verdict = known(times_of(2, 3, 31, 2).verdict())
    assert (verdict.code, verdict.level) == ("straggler", "warning")
    assert verdict.sentence.startswith("rank 2 spends 31 % of its time waiting for data, the others 2 %")


@pytest.mark.parametrize(("kind", "said"), [("logging", "in tracker calls"), ("other", "between its steps")])
def test_what_it_does_meanwhile_is_named(kind, said):
    assert said in known(times_of(0, 0, 0, 40, kind=kind).verdict()).sentence


@pytest.mark.parametrize("waits", [(30, 31, 32, 33), (2, 2, 6), (40,), ()])
def test_ranks_that_are_alike_or_alone_name_nobody(waits):
    assert times_of(*waits).verdict() is None


def test_saving_and_evaluating_is_one_ranks_duty():
    assert times_of(0, 40, kind="checkpoint").verdict() is None
    assert times_of(0, 40, kind="eval").verdict() is None


def test_a_few_steps_and_the_start_up_tell_nothing():
    assert times_of(0, 40, n=2).verdict() is None
    times = RankTimes()
    for rank, wait in enumerate((1.0, 90.0)):
        times.stepped(rank, {"startup": True, "n": 20, "wall_s": 100.0, "time": {"data_wait": wait}})
    assert times.verdict() is None
