"""Of several forwards that wait for a backward, those count that its loss depends on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainmeter_core.inside import used_forwards
from trainmeter_core.inside.autograd_graph import edges_to_leaves
from trainmeter_core.inside.used_forwards import UsedForwards


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.fixture
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_policy_that_acts_with_gradients_on_is_counted_for_what_it_is_trained_on(model, optimizer, tapped):
    """As in DQN: single forwards, more or fewer of them, then a batch. From the first step on."""
    for acts in (3, 2, 1, 3, 0, 2, 3, 4, 2, 1, 3):
        for _ in range(acts):
            model(torch.ones(1, 3)).argmax()
        model(torch.ones(16, 3)).sum().backward()
        optimizer.step()
    assert tapped.ended.used.total() == {(16, 0, 0): 11}


def test_acting_in_batches_as_large_as_those_of_the_training_is_told_apart_as_well(model, optimizer, tapped):
    for _ in range(5):
        model(torch.ones(16, 3)).argmax()
        model(torch.ones(16, 3)).sum().backward()
        optimizer.step()
    assert tapped.ended.used.total() == {(16, 0, 0): 5}


def test_all_forwards_of_one_loss_count(model, optimizer, tapped):
    """Pairs and triples, as contrastive losses have them."""
    for views in (2, 3, 2, 2, 3):
        sum(model(torch.ones(4, 3)).sum() for _ in range(views)).backward()
        optimizer.step()
    assert tapped.ended.used.total() == {(4, 0, 0): 12}


def test_forwards_with_a_backward_each_count_however_late_that_comes(model, optimizer, tapped):
    """A discriminator's real and false halves: both forwards first, then both backwards."""
    for _ in range(4):
        losses = [model(torch.ones(size, 3)).sum() for size in (4, 5)]
        for loss in losses:
            loss.backward()
        optimizer.step()
    assert tapped.ended.used.total() == {(4, 0, 0): 4, (5, 0, 0): 4}


def test_experts_that_a_forward_may_leave_out_do_not_hide_it(tapped):
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.head = nn.Linear(3, 2)

        def forward(self, x, which):
            return self.head((self.first if which else self.second)(x))

    model = Experts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        sum(model(torch.ones(4, 3), which).sum() for which in (True, False)).backward()
        optimizer.step()
    assert tapped.ended.used.total() == {(4, 0, 0): 6}


def test_a_cell_that_is_unrolled_does_not_lead_astray(tapped):
    """Its parameters are used as often as the sequence is long: nothing is told by them, and all forwards count."""

    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(3, 3)

        def forward(self, x):
            for _ in range(4):
                x = self.cell(x)
            return x

    model = Unrolled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 3))
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    assert sum(tapped.ended.used.total().values()) == 6


def test_edges_are_those_of_the_graph(model):
    loss = model(torch.ones(2, 3)).sum() + 2 * model(torch.ones(1, 3)).sum()
    edges, nodes = edges_to_leaves((loss, None, {"a": loss}))
    assert edges == {id(p): 2 for p in model.parameters()}
    assert nodes > 4
    assert edges_to_leaves(torch.ones(2)) == ({}, 0)


def test_the_graph_is_read_a_few_times_only(model, monkeypatch):
    loss = model(torch.ones(2, 3)).sum()
    reads = []

    def counted(tensors):
        reads.append(1)
        return edges_to_leaves(tensors)

    monkeypatch.setattr(used_forwards, "edges_to_leaves", counted)
    told = UsedForwards({id(p) for p in model.parameters()})
    assert [told.of((loss,), 3) for _ in range(40)] == [1] * 40
    assert len(reads) == used_forwards._SURE_AFTER
    told._nodes_left = 0
    assert told.of((loss,), 5) == 5, "never read for so many: all of them"
    assert len(reads) == used_forwards._SURE_AFTER


def test_what_nothing_is_known_of_counts_whole(model):
    assert UsedForwards().of((model(torch.ones(2, 3)).sum(),), 2) == 2
