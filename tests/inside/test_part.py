"""A later part of a process counts from its own beginning, its first step as start-up; the whole is not changed by it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from trainmeter_core.inside import part as part_module
from trainmeter_core.inside.part import Part
from trainmeter_core.inside.step_sums import Sums
from trainmeter_core.passport.check import check
from trainmeter_core.series import TIME_KINDS

SHAPE = (2, 8, 0)


@pytest.fixture
def process():
    """Ten steps were made and one was skipped."""
    identity = SimpleNamespace(rank=0)
    ended, step = SimpleNamespace(steps=10, skipped=1), SimpleNamespace(loader_flag=1)
    return SimpleNamespace(ended=ended, step=step, identity=identity, pid=7)


def a_step(part, now, *seconds, skipped=0):
    by_kind = [*seconds, *[0.0] * (len(TIME_KINDS) - len(seconds))]
    part.step(now, Sums(1 - skipped, skipped, sum(seconds), by_kind, {SHAPE: 2}))


def test_the_first_step_of_a_part_is_startup_since_the_part_began(process, monkeypatch):
    """The nine seconds before, in which an earlier run ended and a model was made, are none of its time."""
    monkeypatch.setattr(part_module, "monotonic", lambda: 109.0)
    part = Part(process)
    a_step(part, 110.5, 10.5)
    a_step(part, 111.5, 0.75, 0.25)
    a_step(part, 112.0, 0.5)
    startup, steady = [event for event in part.events([]) if event["type"] == "steps"]
    assert (startup["n"], startup["wall_s"], startup["time"], startup["startup"]) == (1, 1.5, {"startup": 1.5}, True)
    assert (steady["n"], steady["first"], steady["last"], steady["wall_s"]) == (2, 2, 3, 1.5)
    assert (steady["time"]["step"], steady["time"]["data_wait"]) == (1.25, 0.25)
    assert steady["tokens"] == 2 * 2 * 2 * 8
    assert steady["step_time_s"] == [0.5, 1.0]


def test_skipped_steps_are_counted_apart(process):
    part = Part(process)
    a_step(part, 1e9, 1.0, skipped=1)
    a_step(part, 1e9, 1.0)
    a_step(part, 1e9, 1.0, skipped=1)
    startup, steady = [event for event in part.events([]) if event["type"] == "steps"]
    assert (startup["n"], startup["skipped"]) == (0, 1)
    assert (steady["n"], steady["skipped"]) == (1, 1)


def test_counters_that_are_summed_over_the_process_are_left_to_its_own_passport(process):
    readings: list[dict] = [{"type": "hardware", "gpus": []}, {"type": "gpu", "gpus": {}}]
    part = Part(process)
    a_step(part, 1e9, 1.0)
    assert [event["type"] for event in part.events(readings)] == ["steps", "hardware", "steps", "verdict"]
    assert "GPU" in part.events(readings)[-1]["sentence"]
    assert "GPU" not in part.events([])[-1]["sentence"]


def test_before_its_first_step_a_part_has_nothing(process):
    assert Part(process).events([]) == []


class Training:
    """Training through a real agent: a new model and optimizer each time, the old ones kept or not."""

    def __init__(self, agent):
        self.agent = agent
        self.kept = []

    def steps(self, count, width, keep=True):
        model = nn.Sequential(nn.Embedding(16, width), nn.Linear(width, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if keep:
            self.kept.append((model, optimizer))
        for _ in range(count):
            model(torch.arange(8).view(2, 4)).sum().backward()
            optimizer.step()


@pytest.mark.parametrize("keep", [True, False], ids=["the model before is kept", "it is freed"])
def test_a_part_with_another_model_counts_every_batch_of_it(tapped, keep):
    publish = tapped.publish()
    training = Training(tapped)
    training.steps(3, 8, keep)
    part = publish.part()
    training.steps(4, 12, keep)
    whole = publish.passport()
    assert [whole["steady"][name]["value"] for name in ("steps", "tokens")] == [6, 6 * 8]
    told = publish.passport(part)
    assert (told["data"]["steps"]["value"], told["data"]["tokens"]["value"]) == (4, 4 * 8)
    assert told["model"]["parameters_total"]["value"] == 16 * 12 * 2 + 16
    assert check(told) == []
    assert (tapped.ended.steps, tapped.ended.tokens) == (7, 7 * 8)
    assert publish.passport()["data"]["steps"]["value"] == 7


def test_another_model_without_a_part_is_found_when_its_optimizer_first_steps(tapped):
    """Also where the model before is still there, from its first batch on: an optimizer was made for it."""
    training = Training(tapped)
    training.steps(3, 8)
    tapped.counter.gone(id(training.kept[0][1]))
    training.steps(4, 12)
    assert (tapped.ended.steps, tapped.ended.tokens) == (7, 7 * 8)
