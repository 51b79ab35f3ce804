"""The sums of a run that did not begin with its process."""

from __future__ import annotations

import pytest

from trainmeter_core.resumption import NOT_TOLD, NOTHING, Before, continued, of_the_run

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


def test_steps_that_a_restart_threw_away_are_no_progress():
    """10 of 100 steps were 10 %; of 40 earlier ones 5 were lost, which makes it 45 %."""
    row = {"trainmeter/step": 10.0, "trainmeter/progress_pct": 10.0}
    told = of_the_run(row, Before({"step": 40}, lost=5))
    assert told["trainmeter/step"] == 50
    assert told["trainmeter/progress_pct"] == pytest.approx(45)


def test_a_sum_that_is_not_known_of_the_whole_run_is_left_out():
    told = of_the_run(ROW, Before({"step": 6, "tokens": None, "steps_skipped": 0}))
    assert told == {"trainmeter/step": 16, "trainmeter/mfu_pct": 40.0}


def test_where_nothing_is_known_of_the_run_its_progress_is_left_out_as_well():
    row = {**ROW, "trainmeter/progress_pct": 10.0, "trainmeter/eta_s": 9.0, "trainmeter/eta_plus_minus_s": 1.0}
    assert of_the_run(row, NOT_TOLD) == {"trainmeter/mfu_pct": 40.0}


def test_a_first_process_has_its_row_as_it_is():
    assert of_the_run(ROW, NOTHING) == ROW
