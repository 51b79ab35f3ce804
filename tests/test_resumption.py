"""The sums of a run that did not begin with its process."""

from __future__ import annotations

import pytest

from trainmeter_core.resumption import continued

ROW = {"trainmeter/step": 10.0, "trainmeter/tokens": 1000.0, "trainmeter/mfu_pct": 40.0}


def test_a_row_of_a_run_that_began_here_stays_as_it_is():
    assert continued(ROW, before={}, since={}) == ROW


def test_a_resumed_run_goes_on_from_its_sums():
    told = continued(ROW, before={"trainmeter/step": 90, "trainmeter/tokens": 9000}, since={})
    assert told == {"trainmeter/step": 100, "trainmeter/tokens": 10000, "trainmeter/mfu_pct": 40.0}


def test_a_later_run_of_a_process_leaves_out_what_came_before_it():
    told = continued(ROW, before={}, since={"trainmeter/step": 4, "trainmeter/tokens": 400})
    assert told == {"trainmeter/step": 6, "trainmeter/tokens": 600, "trainmeter/mfu_pct": 40.0}


def test_a_sum_that_only_the_earlier_part_knew_stays():
    assert continued({}, before={"trainmeter/samples": 8}, since={}) == {"trainmeter/samples": 8}


def test_progress_and_time_left_are_those_of_the_whole_run():
    """10 of 100 steps were 10 %, 90 left at 1 s; 40 earlier steps make it 50 %, 50 left."""
    row = {"trainmeter/step": 10.0, "trainmeter/progress_pct": 10.0, "trainmeter/eta_s": 90.0}
    told = continued(row, before={"trainmeter/step": 40}, since={})
    assert told["trainmeter/progress_pct"] == pytest.approx(50)
    assert told["trainmeter/eta_s"] == pytest.approx(50)


def test_progress_ends_at_100():
    row = {"trainmeter/step": 10.0, "trainmeter/progress_pct": 60.0, "trainmeter/eta_s": 5.0}
    told = continued(row, before={"trainmeter/step": 40}, since={})
    assert (told["trainmeter/progress_pct"], told["trainmeter/eta_s"]) == (100, 0)
