"""A training that goes on upon another thread is followed; one that runs beside it is not mixed into its figures."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from trainmeter_core.inside import other_threads
from trainmeter_core.ring_format import FLAG_BATCH_UNSEEN

PATIENCE_S = 20


class Training:
    """A tiny model, its optimizer, and steps of a batch size of its own."""

    def __init__(self, samples: int, *, pause=None) -> None:
        self.model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 4), Paused(pause))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.ids = torch.zeros(samples, 5, dtype=torch.long)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def step(self) -> None:
        self.model(self.ids).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Paused(nn.Module):
    """Lets another thread go on in the middle of a forward."""

    def __init__(self, pause) -> None:
        super().__init__()
        self.pause = pause

    def forward(self, x):
        if self.pause is not None:
            self.pause()
        return x


class Turns:
    """Hands the turn from thread to thread, spinning as one that is at work does: it rests nowhere."""

    def __init__(self, parties: int) -> None:
        self.parties, self.turn = parties, 0
        self.left: set[int] = set()

    def wait_for(self, mine: int) -> None:
        while self.turn % self.parties != mine:
            if self.turn % self.parties in self.left:
                self.turn += 1

    def pass_on(self) -> None:
        self.turn += 1


def in_threads(*work):
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def counted(written):
    told = written()
    assert not any(record.flags & FLAG_BATCH_UNSEEN for record in told.records)
    return [(record.step, record.samples) for record in told.records]


@pytest.mark.parametrize("where", ["between steps", "in the forward"])
def test_of_two_trainings_at_once_the_first_is_counted(where, tapped, written):
    """They take turns, also in the middle of each other's forward; before the first step as well."""
    turns = Turns(2)

    def run(mine, samples):
        def hand_over():
            turns.pass_on()
            turns.wait_for(mine)

        training = Training(samples, pause=hand_over if where == "in the forward" else None)
        turns.wait_for(mine)
        for _ in range(30):
            training.step()
            hand_over()
        turns.left.add(mine)
        turns.pass_on()

    in_threads(lambda: run(0, 2), lambda: run(1, 3))
    assert counted(written) == [(step, 2) for step in range(1, 31)]
    [verdict] = written().of("verdict")
    assert verdict["code"] == "another-training"
    assert len(written().of("model")) == 1


def test_a_step_inside_of_anothers_step_is_not_taken_for_a_part_of_it(tapped, written):
    """One thread is held up in its optimizer while the other one begins and ends its own."""
    first, second = Training(2), Training(3)

    class Held(torch.optim.SGD):
        def __init__(self, parameters) -> None:
            super().__init__(parameters, lr=0.1)
            self.within = lambda: None

        @torch.no_grad()
        def step(self, closure=None):
            self.within()
            return super().step(closure)

    first.optimizer = Held(first.model.parameters())
    turns = Turns(2)

    def within():
        turns.pass_on()
        turns.wait_for(0)

    first.optimizer.within = within

    def run_second():
        for _ in range(10):
            turns.wait_for(1)
            second.step()
            turns.pass_on()

    def run_first():
        for _ in range(10):
            first.step()

    in_threads(run_first, run_second)
    assert counted(written) == [(step, 2) for step in range(1, 11)]


def test_steps_that_a_pool_makes_are_one_training(tapped, written):
    """The pool's threads all live and rest; whichever makes the step, it is the training's."""
    training = Training(2)
    barrier = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(barrier.wait) for _ in range(3)]:
            each.result()
        for _ in range(12):
            pool.submit(training.step).result()
    assert counted(written) == [(step, 2) for step in range(1, 13)]
    assert not written().of("verdict")


def test_a_second_training_that_is_waited_for_goes_on_with_the_run(tapped, written):
    """A trial on the main thread, then the training on a thread that the main one waits for."""
    trial, training = Training(2), Training(3)
    for _ in range(2):
        trial.step()

    def train():
        for _ in range(40):
            training.step()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    steps = written().totals.steps
    assert steps >= 2 + 40 - 16, "the take-over of a second phase, as on one thread"
    assert not written().of("verdict")


def test_a_slow_training_is_not_left_for_a_fast_one(tapped, written):
    """The second one makes many steps in each of the first one's."""
    first, second = Training(2), Training(3)
    turns = Turns(2)
    for _ in range(2):
        first.step()

    def run_first():
        for _ in range(4):
            turns.wait_for(0)
            first.step()
            turns.pass_on()
        turns.left.add(0)

    def run_second():
        for _ in range(4):
            turns.wait_for(1)
            for _ in range(2 * other_threads._LEFT_AFTER):
                second.step()
            turns.pass_on()

    tapped.ended.catch_up()
    tapped.ended.longest = 60.0
    in_threads(run_first, run_second)
    steps = [(record.step, record.samples) for record in written().records]
    assert steps == [(step, 2) for step in range(1, 7)]


def test_a_thread_that_was_given_the_number_of_one_that_ended_is_not_the_training(tapped, written):
    """A tracker's own thread, say, begun between two trials of a sweep."""
    first, second = Training(2), Training(2)
    in_threads(lambda: first.steps(2))
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    trackers = threading.Thread(target=spin)
    trackers.start()
    tapped.step.thread = trackers.ident
    thread = threading.Thread(target=second.steps, args=(20,))
    thread.start()
    while thread.is_alive():
        pass
    stop.set()
    trackers.join()
    assert written().totals.steps >= 2 + 20 - 16
    assert not written().of("verdict")


def test_a_training_that_was_left_is_followed_by_the_one_that_goes_on(tapped, written):
    """Its thread is busy with something else, and makes no step any more."""
    first, second = Training(2), Training(3)
    done = threading.Event()

    def run_first():
        first.step()
        while not done.is_set():
            pass

    def run_second():
        for _ in range(other_threads._LEFT_AFTER + 30):
            second.step()
        done.set()

    thread = threading.Thread(target=run_first)
    thread.start()
    while not tapped.ended.steps:
        pass
    tapped.ended.longest = 0.0
    run_second()
    thread.join()
    assert written().totals.steps >= 1 + 30


def test_an_optimizer_made_beside_a_training_does_not_set_off_a_search(tapped):
    training = Training(2)
    for _ in range(2):
        training.step()
    made: list[Training] = []
    begin = threading.Event()
    other = threading.Thread(target=lambda: (begin.wait(), made.append(Training(3))))  # type: ignore[func-returns-value]
    other.start()
    begin.set()
    while not made:
        pass
    other.join()
    assert not tapped.model.armed


@pytest.mark.parametrize("rests", ["join", "result", "pool"])
def test_a_thread_that_waits_for_others_is_idle(rests):
    go = threading.Event()
    helper = threading.Thread(target=go.wait)
    helper.start()
    with ThreadPoolExecutor(2) as pool:
        if rests == "join":
            asked = threading.Thread(target=helper.join)
            asked.start()
            ident = asked.ident or 0
        else:
            ident = pool.submit(threading.get_ident).result()
            if rests == "result":
                blocked = pool.submit(go.wait)
                asked = threading.Thread(target=blocked.result)
                asked.start()
                ident = asked.ident or 0
        deadline = threading.Event()
        while not other_threads.is_idle(ident) and not deadline.wait(0.01):
            pass
        assert other_threads.is_idle(ident)
        go.set()
    assert not other_threads.is_idle(threading.get_ident())
