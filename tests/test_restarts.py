"""Steps that a restart threw away: each case is a line of processes and what they told."""

from __future__ import annotations

import pytest

from trainmeter_core.readings import Absent
from trainmeter_core.restarts import MOST_LIVES, Life, Lives, Lost, lost_steps


def life(steps, made_before=None, loads=0, loaded=(), saves=()):
    return Life(0.0, steps, made_before, loads, list(loaded), [list(each) for each in saves])


def lives(*each):
    return Lives({str(at): one for at, one in enumerate(each)})


def at(started, ended, **how):
    """A process that began and was last heard of then."""
    return Life(float(started), steps=5, ended=float(ended), **how)


def counted_restarts(*each):
    return lives(*each).restarts()


def test_processes_that_follow_each_other_are_restarts():
    assert counted_restarts(at(0, 10), at(12, 20), at(20, 30)) == 2


def test_processes_at_work_at_once_are_none():
    assert counted_restarts(at(0, 10), at(3, 12), at(4, 5)) == 0


def test_of_several_at_once_each_is_restarted_by_itself_and_the_most_counts():
    """Two workers, of which one is started anew twice and the other once."""
    assert counted_restarts(at(0, 10), at(0, 20), at(11, 15), at(16, 30), at(21, 30)) == 2


def test_a_start_may_be_told_a_tick_of_the_kernel_too_early():
    assert counted_restarts(at(1, 10), at(9.991, 20)) == 1
    assert counted_restarts(at(1, 10), at(9.98, 20)) == 0


def test_a_child_of_a_process_of_its_rank_is_beside_it_however_long_that_was_silent():
    assert counted_restarts(at(1, 10, pid=7), at(12, 20, parent=7)) == 0
    assert counted_restarts(at(1, 10, pid=7), at(12, 20, parent=7), at(21, 30, parent=7)) == 1


def test_another_command_that_goes_on_with_the_run_follows_whatever_the_clocks_say():
    assert counted_restarts(at(5, 10), at(3, 20, part=2)) == 1


def test_where_no_start_was_told_they_followed_each_other():
    assert counted_restarts(at(0, 10), at(0, 20)) == 1


def test_a_process_beside_another_one_throws_nothing_away():
    """Its optimizer counts its parent's steps, of which the parent made more afterwards."""
    assert lost_steps([lives(at(1, 30, made_before=0, pid=7), at(5, 20, made_before=2, parent=7))]) == Lost(0)


def test_a_line_that_began_beside_another_one_is_counted_from_where_that_was():
    parent, child = at(1, 30, made_before=0, pid=7), at(5, 10, made_before=2, parent=7)
    assert lost_steps([lives(parent, child, at(12, 20, made_before=4, parent=7))]) == Lost(2 + 5 - 4)
    child.made_before = None
    lost = lost_steps([lives(parent, child, at(12, 20, made_before=4, parent=7))])
    assert isinstance(lost.steps, Absent)


def test_seconds_that_processes_shared_are_known():
    beside = lives(at(0, 30, warm=5.0, stepped=20.0), at(6, 40, warm=10.0, stepped=25.0), at(7, 50, warm=30.0))
    assert beside.shared_s() == 10
    assert lives(at(0, 9, warm=1.0, stepped=9.0), at(10, 20, warm=12.0, stepped=19.0)).shared_s() == 0


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
        many.of(1, at)[0].steps += 1
    assert isinstance(lost_steps([many]).steps, Absent)
    assert len(many.by_process) == MOST_LIVES + 1
