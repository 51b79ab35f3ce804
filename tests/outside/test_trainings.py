"""Which process belongs to which training, by what it tells of itself."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.trainings import Trainings


def told(pid, rank=0, world=1, parent=1, command="train.py", **more):
    return {
        "pid": pid, "rank": rank, "world_size": world, "parent": parent, "program": pid,
        "command": ["python", *command.split()], **more,
    }  # fmt: skip


def trainings_of(*each, saved=None):
    """A number for the training of each process, in the order of their coming."""
    trainings = Trainings(0)
    numbers = []
    for who in each:
        found = trainings.find(who) or trainings.begin(len(trainings.all))
        trainings.join(found, who)
        found.marks.update((saved or {}).get(who["pid"], ()))
        numbers.append(found.of)
    return numbers


def ranks(first_pid, world=2, **more):
    return [told(first_pid + rank, rank, world, **more) for rank in range(world)]


def test_commands_one_after_another_and_side_by_side_are_trainings_of_their_own():
    assert trainings_of(told(10), told(11), told(12, command="other.py")) == [0, 1, 2]


def test_the_ranks_of_a_launcher_and_their_restarts_are_one():
    assert trainings_of(*ranks(10), *ranks(20)) == [0, 0, 0, 0]


@pytest.mark.parametrize("port", ["29500", "29501"])
def test_two_launchers_are_two_trainings_one_after_another_also_on_the_same_port(port):
    one = ranks(10, parent=5, rendezvous="localhost:29500")
    two = ranks(20, parent=6, rendezvous="localhost:" + port)
    assert trainings_of(*one, *two) == [0, 0, 1, 1]


def test_two_launchers_side_by_side_are_two_trainings_whichever_rank_comes_first():
    (a0, a1), (b0, b1) = ranks(10, parent=5, rendezvous="h:1"), ranks(20, parent=6, rendezvous="h:2")
    assert trainings_of(a0, b1, b0, a1) == [0, 1, 1, 0]


def test_ranks_without_a_parent_in_common_meet_at_their_address():
    assert trainings_of(*(told(10 + rank, rank, 4, parent=rank, rendezvous="h:1") for rank in range(4))) == [0, 0, 0, 0]


def test_torchruns_own_id_of_the_job_decides_where_there_is_one():
    one, two = ranks(10, elastic="a"), ranks(20, elastic="b")
    again = ranks(30, parent=9, elastic="a")
    assert trainings_of(*one, *two, *again) == [0, 0, 1, 1, 0, 0]
    alone = told(40, elastic="c"), told(41, elastic="c")
    assert trainings_of(*alone) == [0, 0]


def test_children_of_one_program_are_its_training():
    assert trainings_of(told(10), told(11, program=10), told(12, program=10)) == [0, 0, 0]


def test_a_process_that_goes_on_from_a_checkpoint_of_the_same_script_is_a_restart():
    saved = {10: ["7:100"]}
    assert trainings_of(told(10), told(11, loaded=["7:100"]), saved=saved) == [0, 0]
    resumed = told(11, command="train.py --resume", loaded=["7:100"], made_before=5)
    assert trainings_of(told(10), resumed, saved=saved) == [0, 0]


def test_a_checkpoint_that_another_training_begins_with_makes_no_restart_of_it():
    saved = {10: ["7:100"]}
    stage = told(11, command="train.py --stage 2", loaded=["7:100"], made_before=0)
    tuned = told(12, command="finetune.py", loaded=["7:100"], made_before=5)
    assert trainings_of(told(10), stage, tuned, saved=saved) == [0, 1, 2]


def test_an_agent_that_does_not_tell_is_where_the_newest_are():
    assert trainings_of(told(10), {"pid": 11, "rank": 0}) == [0, 0]
