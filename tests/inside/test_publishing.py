"""What adapters are given: rows of whole steps, the user's losses, logging time, and numbers scaled to all ranks."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from trainmeter_core import emit
from trainmeter_core.inside import emitted, part, publishing, this_process
from trainmeter_core.inside.agent import Agent
from trainmeter_core.inside.emitted import record
from trainmeter_core.inside.peers import Peers
from trainmeter_core.inside.ring import Ring
from trainmeter_core.inside.span_clock import LOGGING
from trainmeter_core.ring_format import Identity


@pytest.fixture
def clock(monkeypatch):
    """The seconds between rows pass when the test says so."""
    hand = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(publishing, "monotonic", lambda: hand.now)
    return hand


@pytest.fixture
def optimizer():
    return torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)


@pytest.fixture
def train(agent, optimizer):
    agent.publish()

    def steps(count=1, shape=(4, 16, 0)):
        for _ in range(count):
            agent.step.other_forward(shape)
            agent.backward_ran()
            agent.optimizer_enters(optimizer)
            agent.optimizer_leaves(optimizer)

    return steps


def test_a_row_counts_whole_steps_and_comes_at_most_once_a_second(agent, train, clock):
    train(3)
    row = agent.publish().row()
    assert (row["trainmeter/step"], row["trainmeter/tokens"]) == (3, 192)
    train(2)
    assert agent.publish().row() is None
    clock.now += 1.1
    assert agent.publish().row()["trainmeter/tokens"] == 320


def test_without_a_new_step_there_is_no_row(agent, train, clock):
    train(2)
    agent.publish().row()
    clock.now += 5
    assert agent.publish().row() is None
    assert agent.publish().row(final=True) is None


def test_the_last_row_waits_for_nothing(agent, train, clock):
    train(2)
    agent.publish().row()
    train()
    assert agent.publish().row(final=True)["trainmeter/step"] == 3


def test_before_the_first_step_there_is_nothing(agent):
    assert agent.publish().row() is None
    assert agent.publish().passport() is None


def test_the_shares_of_a_row_add_up_to_100(agent, train, clock):
    train(3)
    shares = [value for name, value in agent.publish().row().items() if name.startswith("trainmeter/time/")]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_a_step_in_a_graph_is_counted_before_the_row(agent, train, optimizer, clock):
    train(2)
    agent.backward_ran()
    agent.in_graph.stepped = optimizer
    assert agent.publish().row()["trainmeter/step"] == 3


def test_losses_keep_first_last_and_best_at_the_optimizer_step(agent, train, written):
    publish = agent.publish()
    for value in (3.0, 1.0, 2.0):
        train()
        publish.observe({"train/loss": value, "accuracy": 0.5, "trainmeter/loss": 9.0}, step=777)
    assert publish.losses == {"train/loss": [3, (3.0, 1), (2.0, 3), (1.0, 2)]}
    agent.finish()
    assert written().of("losses")[-1]["tags"]["train/loss"] == {
        "count": 3,
        "first": [3.0, 1],
        "last": [2.0, 3],
        "best": [1.0, 2],
    }


def test_a_loss_told_later_stands_at_the_step_after_which_it_was_logged(agent, train):
    publish = agent.publish()
    train(2)
    part = publish.part()
    train(3)
    for after in (1, 4, 5):
        publish.observe({"loss": float(after)}, step=None, after=after)
    assert publish.losses == {"loss": [3, (1.0, 1), (5.0, 5), (1.0, 1)]}
    assert part.losses == {"loss": [2, (4.0, 2), (5.0, 3), (4.0, 2)]}, "one logged before the part is none of it"


def test_a_passport_holds_what_an_adapter_was_still_to_tell(agent, train):
    publish = agent.publish()
    train(2)
    waiting = [{"loss": 3.0}, {"loss": 2.0}]
    publish.before_passport(lambda: [publish.observe(waiting.pop(0), None, after=1) for _ in range(len(waiting))])
    assert publish.passport()["losses"]["loss"]["count"]["value"] == 2
    assert publish.passport()["losses"]["loss"]["count"]["value"] == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_diverged_loss_is_told_as_not_finite_and_is_never_the_best(agent, bad):
    publish = agent.publish()
    for step, value in enumerate([bad, 2.0, bad]):
        publish.observe({"loss": value}, step)
    assert publish.losses["loss"] == [3, (None, 0), (None, 2), (2.0, 1)]


def test_a_program_with_endless_names_is_bounded(agent):
    publish = agent.publish()
    for number in range(1000):
        publish.observe({f"loss/{number}": 1.0}, number)
    assert len(publish.losses) == part._MOST_TAGS


def test_a_place_is_announced_once(agent, written):
    for _ in range(3):
        agent.publish().publishes_to("tensorboard", logdir="/runs/a")
    agent.publish().publishes_to("tensorboard", logdir="/runs/b")
    assert [event["where"]["logdir"] for event in written().of("tracker")] == ["/runs/a", "/runs/b"]


def test_log_calls_of_several_threads_do_not_disturb_each_other(agent):
    publish = agent.publish()
    entered, leave = threading.Event(), threading.Event()

    def background():
        with publish.logging():
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=background)
    with publish.logging():
        thread.start()
        entered.wait(5)
        assert agent.step.current == LOGGING
    assert agent.step.current == agent.step.base
    leave.set()
    thread.join()
    assert agent.step.current == agent.step.base


def test_a_log_call_that_raises_is_left(agent):
    with pytest.raises(LookupError), agent.publish().logging():
        raise LookupError("theirs")
    assert agent.step.current == agent.step.base


class TestPeers:
    """Global over local, read off the other ranks' rings."""

    @pytest.fixture
    def rank_0(self, spool, monkeypatch, optimizer):
        monkeypatch.setenv("WORLD_SIZE", "4")
        agent = Agent(str(spool))
        agent.step.other_forward((4, 16, 0))
        agent.backward_ran()
        agent.optimizer_enters(optimizer)
        agent.optimizer_leaves(optimizer)
        return agent

    def ring(self, spool, rank, steps, tokens, *, world=4, started=1.0, pid=None):
        pid = pid or 100000 + rank
        ring = Ring(str(spool / f"r{rank}-{pid}.ring"), Identity(pid, rank, rank, world, 0.0, 0.0, started))
        ring.step(1, 0, 1, steps, 0.0, tokens, 0, 16, 0, (0.0,) * 6, (steps, 0, tokens, tokens // 16, 0))

    def factor(self, spool, agent):
        above, below = Peers(str(spool)).scale(agent)
        return above / below

    def test_alone_it_is_the_world_size(self, spool, rank_0):
        """The other ranks are on other nodes: assumed to do the same."""
        assert Peers(str(spool)).scale(rank_0) == (4, 1)

    def test_unequal_ranks_are_summed(self, spool, rank_0):
        for rank, tokens in ((1, 128), (2, 64), (3, 32)):
            self.ring(spool, rank, 1, tokens)
        assert self.factor(spool, rank_0) == (64 + 128 + 64 + 32) / 64

    def test_a_rank_that_is_ahead_is_taken_at_its_mean(self, spool, rank_0):
        for rank in (1, 2, 3):
            self.ring(spool, rank, 1 + rank, 64 * (1 + rank))
        assert Peers(str(spool)).scale(rank_0) == (4, 1)

    def test_a_restarted_rank_counts_once_and_another_runs_ring_not_at_all(self, spool, rank_0):
        self.ring(spool, 1, 9, 9 * 640, started=1.0, pid=7)
        self.ring(spool, 1, 1, 64, started=2.0, pid=8)
        self.ring(spool, 2, 1, 6400, world=8)
        assert Peers(str(spool)).scale(rank_0) == (4, 1)

    def test_a_ring_that_is_being_made_is_left_for_later(self, spool, rank_0):
        (spool / "r1-9.ring").write_bytes(b"")
        assert Peers(str(spool)).scale(rank_0) == (4, 1)


class Hostile:
    """A number that is none."""

    def __float__(self):
        raise RuntimeError("theirs")

    __int__ = __index__ = __float__


class TestEmit:
    """`emit`: whatever it is given, nothing is raised, and what is a number arrives."""

    @pytest.fixture(autouse=True)
    def current(self, agent, monkeypatch):
        monkeypatch.setattr(this_process, "_agent", agent)
        monkeypatch.setitem(__import__("sys").modules, "trainmeter_core.inside.bootstrap", publishing)
        return agent

    def rows(self, agent, written):
        agent.finish()
        return [row for event in written().of("scalars") for row in event["rows"]]

    @pytest.mark.parametrize(
        "value",
        ["text", None, object(), Hostile(), [1.0], {}, 10**400, torch.ones(3), 1j],
        ids=lambda v: type(v).__name__,
    )
    def test_what_is_no_number_is_left_out(self, agent, written, value):
        emit(train_loss=1.0, junk=value, step=value)
        assert [(step, set(numbers)) for step, _, numbers in self.rows(agent, written)] == [(0, {"train_loss"})]

    def test_numbers_of_any_kind_arrive(self, agent, written):
        import numpy as np

        emit(a=1, b=2.5, c=torch.tensor(3.5, requires_grad=True), d=np.float32(4.5), e=True, step=torch.tensor(7))
        [(step, _, numbers)] = self.rows(agent, written)
        assert (step, numbers) == (7, {"a": 1.0, "b": 2.5, "c": 3.5, "d": 4.5, "e": 1.0})

    def test_without_a_step_it_is_the_optimizers(self, agent, train, written):
        train(3)
        emit(loss=1.0)
        assert [step for step, _, _ in self.rows(agent, written)] == [3]

    def test_our_own_names_cannot_be_taken(self, agent, written):
        emit(**{"trainmeter/tokens": 1.0})
        assert self.rows(agent, written) == []

    def test_rows_are_written_together_and_none_is_lost(self, agent, written):
        for step in range(1200):
            emit(loss=1.0, step=step)
        assert [step for step, _, _ in self.rows(agent, written)] == list(range(1200))
        assert len(written().of("scalars")) < 20

    def test_names_are_bounded(self, agent, written):
        emit(**{f"n{number}": 1.0 for number in range(1000)})
        assert len(self.rows(agent, written)[0][2]) == emitted._MOST_NAMES

    def test_other_ranks_leave_the_files_to_rank_0(self, agent, written, monkeypatch):
        agent.identity = agent.identity._replace(rank=3)
        emit(loss=1.0)
        assert self.rows(agent, written) == []
        assert "loss" in agent.publish().losses

    def test_many_threads_may_emit(self, agent, written):
        def many():
            for step in range(200):
                emit(loss=1.0, step=step)

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(self.rows(agent, written)) == 800

    def test_a_failure_of_ours_is_counted_and_not_raised(self, agent, lenient, monkeypatch):
        monkeypatch.setattr(agent, "publish", lambda: 1 / 0)
        record({"loss": 1.0}, 1)
        assert emitted._SITE.count == 1
