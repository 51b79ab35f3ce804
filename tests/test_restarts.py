"""Steps that a restart threw away: each case is a line of processes and what they told."""

from __future__ import annotations

import pytest

from trainmeter_core.readings import Absent
from trainmeter_core.restarts import MOST_LIVES, Life, Lives, Lost, lost_steps


def life(steps, made_before=None, loads=0, loaded=(), saves=()):
    return Life(0.0, steps, made_before, loads, list(loaded), [list(each) for each in saves])


def lives(*each):
    return Lives({str(at): one for at, one in enumerate(each)})


def test_a_run_that_was_not_restarted_lost_nothing():
    assert lost_steps([]) == Lost(0)
    assert lost_steps([lives(life(10))]) == Lost(0)


def test_the_optimizers_own_count_tells_whatever_was_saved():
    assert lost_steps([lives(life(6, 0, saves=[("a", 5)]), life(6, 4, 1, ["b"]))]) == Lost(2)


def test_an_optimizer_that_had_steps_before_the_run_is_counted_from_there():
    assert lost_steps([lives(life(6, 1000), life(6, 1004))]) == Lost(2)


def test_the_file_that_was_loaded_tells_where_it_was_saved():
    run = lives(life(9, None, saves=[("a", 4), ("b", 8)]), life(5, None, 2, ["pretrained", "a"]))
    assert lost_steps([run]) == Lost(5)


def test_a_file_that_was_written_again_is_at_its_last_save():
    run = lives(life(9, saves=[("a", 4), ("a", 8)]), life(3, None, 1, ["a"]))
    assert lost_steps([run]) == Lost(1)


def test_a_new_optimizer_and_nothing_loaded_is_the_beginning():
    assert lost_steps([lives(life(7, 0, saves=[("a", 5)]), life(9, 0))]) == Lost(7)


def test_a_new_optimizer_beside_a_known_file_is_at_the_file():
    assert lost_steps([lives(life(7, 0, saves=[("a", 5)]), life(9, 0, 1, ["a"]))]) == Lost(2)


def test_otherwise_the_last_save_is_assumed():
    assert lost_steps([lives(life(9, saves=[("a", 4), ("", 8)]), life(3, None, 1, ["other"]))]) == Lost(5, assumed=True)
    assert lost_steps([lives(life(9, saves=[("", 8)]), life(3, None, 1))]) == Lost(1, assumed=True)


def test_without_any_sign_it_is_not_known_and_stays_so():
    lost = lost_steps([lives(life(9), life(3), life(3, 2))])
    assert isinstance(lost.steps, Absent)
    assert "not known" in lost.steps.reason


def test_each_restart_adds_its_own_and_counts_from_its_own_beginning():
    run = lives(
        life(6, 0, saves=[("a", 4)]),
        life(6, 4, saves=[("b", 4)]),
        life(3, 8, saves=[("c", 1)]),
        life(1, None, 1, ["c"]),
    )
    assert lost_steps([run]) == Lost(2 + 2 + 2)


def test_a_rank_may_load_what_another_one_saved_and_the_most_counts():
    saver = lives(life(6, saves=[("a", 4)]), life(6, None, 1, ["a"]))
    other = lives(life(7), life(6, None, 1, ["a"]))
    assert lost_steps([saver, other]) == Lost(3)


def test_a_count_beyond_the_end_of_the_run_is_not_believed():
    assert lost_steps([lives(life(6, 0, saves=[("a", 4)]), life(6, 900))]) == Lost(2, assumed=True)


def test_processes_count_in_the_order_of_their_start():
    late, early = life(3, 4), life(6, 0)
    late.started, early.started = 20.0, 10.0
    assert lost_steps([Lives({"99": late, "100": early})]) == Lost(2)


@pytest.mark.parametrize("count", [MOST_LIVES + 2, MOST_LIVES + 50])
def test_more_restarts_than_a_record_holds_are_said(count):
    many = Lives()
    for at in range(count):
        many.of(str(at))[0].steps += 1
    assert isinstance(lost_steps([many]).steps, Absent)
    assert len(many.by_process) == MOST_LIVES + 1
