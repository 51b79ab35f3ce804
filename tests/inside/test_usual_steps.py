"""Usual steps, which the taps end by themselves, are told as the agent would have told them."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.inside.tiny_net import VOCAB, Net, train
from trainmeter_core.inside.agent import Agent
from trainmeter_core.ring_format import FLAG_BATCH_UNSEEN, MOST_UNWRITTEN


def a_program(seed: int) -> None:  # noqa: PLR0915 - the turns, a few lines each
    """Every turn that a training may take, in an order of its own: the same for the same seed."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    model, other = Net(), nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    batches = iter(DataLoader(TensorDataset(torch.randint(0, VOCAB, (2000, 12))), batch_size=2))

    def forward(length=12):
        (ids,) = next(batches)
        return model(ids[:, :length]).pow(2).mean()

    def usual():
        forward().backward()
        optimizer.step()

    def two_micro_batches():
        for _ in range(2):
            forward().backward()
        optimizer.step()

    def another_length():
        forward(length=chance.randint(2, 11)).backward()
        optimizer.step()

    def mixed_lengths():
        for length in (4, 7):
            forward(length).backward()
        optimizer.step()

    def mixed_with_the_usual():
        forward(length=5).backward()
        usual()

    def two_forwards_one_backward():
        (forward() + forward()).backward()
        optimizer.step()

    def a_validation_loss_with_gradients():
        forward()
        usual()

    def one_after_the_last_backward():
        forward().backward()
        forward()
        optimizer.step()
        usual()

    def an_evaluation():
        model.eval()
        with torch.no_grad():
            forward()
        model.train()

    def skipped():
        scaler.scale(forward()).backward()
        model.out.weight.grad[0, 0] = float("nan")
        scaler.step(optimizer)
        scaler.update()

    def scaled():
        scaler.scale(forward()).backward()
        scaler.step(optimizer)
        scaler.update()

    def a_closure_that_evaluates():
        def closure():
            loss = forward()
            loss.backward()
            with torch.no_grad():
                forward()
            return loss

        optimizer.step(closure)

    def a_step_of_the_other():
        other(torch.ones(2, 3)).sum().backward()
        second.step()

    def a_step_without_a_batch():
        model.out.weight.pow(2).sum().backward()
        optimizer.step()

    def a_step_without_a_backward():
        optimizer.step()

    def a_forward_that_fails():
        with pytest.raises(IndexError):
            model(torch.full((2, 3), VOCAB))
        usual()

    turns = [
        two_micro_batches, another_length, mixed_lengths, two_forwards_one_backward, a_validation_loss_with_gradients,
        one_after_the_last_backward, mixed_with_the_usual, an_evaluation, skipped, scaled, a_closure_that_evaluates, a_step_of_the_other,
        a_step_without_a_batch, a_step_without_a_backward, a_forward_that_fails,
    ]  # fmt: skip
    usual()
    for _ in range(40):
        for _ in range(chance.choice((0, 1, 3, MOST_UNWRITTEN + 2))):
            usual()
        chance.choice(turns)()
        optimizer.zero_grad()


def told_by(written) -> list:
    """All of the records but the times."""
    told = written()
    return [
        (record._replace(end=0, wall_s=0, step_s=0, data_wait_s=0, eval_s=0), shapes)
        for record, shapes in zip(told.records, told.shapes, strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_usual_steps_are_told_as_the_agent_tells_them(seed, tapped, written, spool, monkeypatch):
    a_program(seed)
    sums = tapped.ended.sums()
    by_the_taps = told_by(written)
    assert sum(time_s for time_s in sums.seconds) == pytest.approx(sums.end - tapped.identity.process_start)
    for path in spool.glob("*"):
        path.unlink()
    tapped.start_anew()
    tapped.model.undo()
    tapped.model.noted.clear()
    tapped.model.arm()
    ended, step_ends = [], Agent.step_ends

    def never_usual(self, *args):
        step_ends(self, *args)
        ended.append(1)
        self.step.leader = 0

    monkeypatch.setattr(Agent, "step_ends", never_usual)
    a_program(seed)
    assert len(ended) > 100
    assert told_by(written) == by_the_taps
    again = tapped.ended.sums()
    assert (again.steps, again.skipped, again.unseen, again.batches) == (
        sums.steps, sums.skipped, sums.unseen, sums.batches
    )  # fmt: skip


def test_most_steps_of_a_plain_loop_are_usual(tapped, monkeypatch):
    """Else what is measured as overhead would be another path than users have."""
    asked, leaves = [], Agent.optimizer_leaves

    def leaving(*args):
        asked.append(1)
        return leaves(*args)

    monkeypatch.setattr(Agent, "optimizer_leaves", leaving)
    train(50)
    assert len(asked) == 1
    assert tapped.ended.steps == 50


def test_a_backward_without_a_batch_is_no_usual_step(tapped, written):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for seen in (True, True, False, True):
        loss = model(torch.ones(2, 5, dtype=torch.long)).sum() if seen else model.out.weight.sum()
        loss.backward()
        optimizer.step()
    assert [bool(record.flags & FLAG_BATCH_UNSEEN) for record in written().records] == [False, False, True, False]
