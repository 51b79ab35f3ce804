"""A run that stands still while its GPUs spin is told of once, with what each rank was doing; a working one never."""

from __future__ import annotations

from typing import Any

import pytest

from tests.known import known
from trainmeter_core.ladder import Counters
from trainmeter_core.outside.hang import HangWatch, spinning, whereabouts
from trainmeter_core.readings import Absent
from trainmeter_core.series import TIME_KINDS

SPINS = Counters(driver_util_pct=100.0, tensor_active_pct=0.0, power_w=75.0, power_limit_w=700.0, samples=5)
WORKS = SPINS._replace(tensor_active_pct=40.0, power_w=600.0)
IDLE = SPINS._replace(driver_util_pct=0.0)


class Gpus:
    def __init__(self, *counters):
        self.each = list(counters)

    def counters(self, since):
        return self.each


class Ring:
    def __init__(self, rank, kind):
        self.identity = type("Identity", (), {"rank": rank})
        self.phase = lambda: TIME_KINDS.index(kind)


def watching(step_s=1.0):
    watch: Any = HangWatch()
    for end in range(1, 6):
        watch.stepped({"n": 1, "skipped": 0, "wall_s": step_s, "startup": False}, end * step_s)
    return watch, 5 * step_s


def test_a_hang_is_told_once_with_the_phases():
    watch, last = watching()
    rings = [Ring(0, "step"), Ring(1, "step"), Ring(2, "data_wait")]
    found = watch.look(Gpus(SPINS, SPINS, IDLE), rings, now=last + 11)
    assert found.code == "hang"
    assert found.sentence.startswith(
        "No step for 11 s, usually 1 s; ranks 0-1 in a training step, rank 2 waiting for data."
    )
    assert watch.look(Gpus(SPINS), rings, now=last + 20) is None


@pytest.mark.parametrize(
    ("step_s", "still", "gpus", "kind"),
    [
        (1.0, 9.9, [SPINS], "step"),  # less than ten steps
        (0.01, 9.9, [SPINS], "step"),  # ten short steps, but a moment only
        (5.0, 30.0, [SPINS], "step"),
        (1.0, 60.0, [SPINS, WORKS], "step"),  # one GPU still works
        (1.0, 60.0, [IDLE], "step"),  # nothing spins: a long data wait
        (1.0, 60.0, [SPINS._replace(samples=2)], "step"),  # too few samples to say
        (1.0, 60.0, [SPINS._replace(tensor_active_pct=Absent("no GPM"))], "step"),
        (1.0, 60.0, [SPINS], "checkpoint"),  # the others rightly wait
        (1.0, 60.0, [SPINS], "eval"),
        (1.0, 60.0, [], "step"),
    ],
)
def test_what_is_no_hang_is_not_called_one(step_s, still, gpus, kind):
    watch, last = watching(step_s)
    assert watch.look(Gpus(*gpus), [Ring(0, kind)], now=last + still) is None


def test_a_run_without_a_step_yet_is_not_judged():
    watch: Any = HangWatch()
    assert watch.look(Gpus(SPINS), [Ring(0, "startup")], now=1e9) is None


def test_the_gpu_of_the_rank_that_is_missing_may_be_idle():
    assert known(spinning([SPINS, IDLE])).code == "hang"


def test_equal_ranks_are_told_together():
    doing = {0: "step", 1: "step", 2: "step", 3: "checkpoint", 5: "logging", 7: "logging"}
    told = "ranks 0-2 in a training step, rank 3 saving a checkpoint, ranks 5, 7 in a tracker call"
    assert whereabouts(doing) == told
