"""The run as it stands: what one of its processes found when it began, and rates of processes at work at once."""

from __future__ import annotations

import pytest

from trainmeter_core.meter import Budget
from trainmeter_core.outside.live import LiveRun

ALL_GONE = lambda _pid: True  # noqa: E731 - a word for it
NONE_GONE = lambda _pid: False  # noqa: E731


@pytest.fixture
def live():
    return LiveRun(convention=None, peak_tflops=None, budget=Budget("hours", 1.0))


def began(live, pid, started, rank=0, **told):
    live.note({"type": "process", "rank": rank, "pid": pid, "started": started, "program": pid, **told})


def stepped(live, pid, end, n, wall_s, rank=0, *, world_size=1, startup=False):
    fields = {
        "n": n, "skipped": 0, "tokens": 10 * n, "samples": n, "wall_s": wall_s, "time": {"step": wall_s},
        "batches": [[1, 10, 0, n]], "startup": startup,
    }  # fmt: skip
    live.steps(rank, world_size, fields, pid, end)


def test_a_first_process_had_nothing_before_it(live):
    began(live, 1, 100.0)
    assert live.before(0, 1, ALL_GONE) == {}


def test_a_process_had_what_those_did_that_had_ended_when_it_began(live):
    began(live, 1, 100.0)
    stepped(live, 1, 110.0, 5, 10.0)
    began(live, 2, 112.0)
    stepped(live, 2, 113.0, 1, 1.0, startup=True)
    told = live.before(0, 2, ALL_GONE)
    assert told == {"step": 5, "steps_skipped": 0, "tokens": 50, "samples": 5, "flops": None}
    assert live.before(0, 2, NONE_GONE) == {}


def test_one_at_work_at_the_same_time_is_not_before_it(live):
    began(live, 1, 100.0)
    stepped(live, 1, 110.0, 5, 10.0)
    began(live, 2, 105.0)
    assert live.before(0, 2, ALL_GONE) == {}


def test_of_several_ranks_steps_count_once_and_tokens_all(live):
    for rank in (0, 1):
        began(live, 1 + rank, 100.0, rank)
        stepped(live, 1 + rank, 110.0, 5, 10.0, rank, world_size=2)
    began(live, 9, 112.0)
    told = live.before(0, 9, ALL_GONE)
    assert (told["step"], told["tokens"]) == (5, 100)


def test_siblings_of_one_program_go_on_from_each_other_only_where_something_says_so(live):
    began(live, 1, 100.0, program=7)
    stepped(live, 1, 110.0, 5, 10.0)
    live.note({"type": "saved", "rank": 0, "pid": 1, "mark": "a", "step": 4})
    began(live, 2, 112.0, program=7, made_before=0, loaded=["pretrained"])
    began(live, 3, 113.0, program=7, made_before=None, loaded=["a"])
    began(live, 4, 114.0, program=7, made_before=4)
    assert [live.before(0, pid, ALL_GONE).get("step") for pid in (2, 3, 4)] == [None, 5, 5]


def test_a_sum_that_not_all_of_them_saw_is_not_known(live):
    began(live, 1, 100.0)
    live.steps(0, 1, {"n": 2, "skipped": 0, "tokens": None, "samples": None, "unseen": 2, "wall_s": 1.0, "time": {},
                      "batches": [], "startup": False}, 1, 101.0)  # fmt: skip
    began(live, 2, 102.0)
    assert live.before(0, 2, ALL_GONE) == {
        "step": 2, "steps_skipped": 0, "tokens": None, "samples": None, "flops": None,
    }  # fmt: skip


def test_processes_at_work_at_once_share_the_time(live):
    """Two children of one rank, each with 10 tokens a second, make 20; the hours of a budget pass once."""
    began(live, 1, 100.0)
    began(live, 2, 100.0)
    stepped(live, 1, 110.0, 10, 10.0)
    stepped(live, 2, 110.0, 10, 10.0)
    row = live.row()
    assert (row["trainmeter/step"], row["trainmeter/tokens_per_s"]) == (20, 20)
    assert row["trainmeter/progress_pct"] == pytest.approx(100 * 10 / 3600)


def test_processes_that_follow_each_other_add_up(live):
    began(live, 1, 100.0)
    stepped(live, 1, 110.0, 10, 10.0)
    began(live, 2, 112.0)
    stepped(live, 2, 122.0, 10, 10.0)
    row = live.row()
    assert (row["trainmeter/step"], row["trainmeter/tokens_per_s"]) == (20, 10)
    assert row["trainmeter/progress_pct"] == pytest.approx(100 * 20 / 3600)


def test_another_command_that_goes_on_with_the_run_adds_its_time_whatever_its_process_numbers(live):
    began(live, 1, 100.0)
    stepped(live, 1, 110.0, 10, 10.0)
    live.note({"type": "resumed"})
    began(live, 1, 105.0)
    stepped(live, 1, 115.0, 10, 10.0)
    row = live.row()
    assert (row["trainmeter/step"], row["trainmeter/tokens_per_s"]) == (20, 10)
    assert row["trainmeter/progress_pct"] == pytest.approx(100 * 20 / 3600)
