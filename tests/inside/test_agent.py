"""The agent's sums: what optimizer, scaler, backward and model taps tell it becomes one record a step."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref

import pytest
import torch
from torch import nn

from trainmeter_core.inside import this_process
from trainmeter_core.inside.agent import Agent
from trainmeter_core.ring_format import (
    FLAG_BATCH_UNSEEN,
    FLAG_MIXED_SHAPES,
    FLAG_SKIPPED,
    FLAG_STARTUP,
    STEP_RECORD,
    TAIL_RECORD,
)


@pytest.fixture
def optimizer():
    return torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)


def step(agent: Agent, optimizer, *shapes) -> None:
    """A training step as the taps tell it: forward and backward for each shape, then the optimizer."""
    for shape in shapes:
        agent.step.other_forward(shape)
        agent.backward_ran()
    agent.optimizer_enters(optimizer)
    agent.optimizer_leaves(optimizer)


def test_a_record_a_step_with_its_tokens_and_samples(agent, optimizer, written):
    for _ in range(3):
        step(agent, optimizer, (4, 16, 0), (4, 16, 0))
    told = written()
    assert [r.step for r in told.records] == [1, 2, 3]
    assert [(r.tokens, r.samples, r.micro_batches, r.seq_len) for r in told.records] == [(128, 8, 2, 16)] * 3
    assert told.shapes == [{(4, 16, 0): 2}] * 3
    assert [r.flags for r in told.records] == [FLAG_STARTUP, 0, 0]
    assert told.totals[1:5] == (3, 0, 384, 24)


def test_micro_batches_of_several_shapes_are_kept_apart(agent, optimizer, written):
    shapes = [(rows, 8 + rows, 0) for rows in range(1, 8)]
    step(agent, optimizer, *shapes, shapes[0])
    [record], [found] = written().records, written().shapes
    assert record.flags & FLAG_MIXED_SHAPES
    assert found == {**dict.fromkeys(shapes, 1), shapes[0]: 2}
    assert record.tokens == sum(b * t * calls for (b, t, _), calls in found.items())


def test_a_forward_without_a_backward_is_no_micro_batch(agent, optimizer, written):
    agent.step.other_forward((9, 9, 0))  # a validation loss in train mode with gradients on, after the last backward
    agent.step.all_pending().clear()
    step(agent, optimizer, (4, 16, 0))
    agent.backward_ran()  # of a model that nobody saw
    agent.optimizer_enters(optimizer)
    agent.optimizer_leaves(optimizer)
    step(agent, optimizer, (4, 16, 0))
    assert [r.tokens for r in written().records] == [64, 0, 64]
    assert written().records[1].flags & FLAG_BATCH_UNSEEN


def test_a_skipped_step_is_counted_apart_and_its_batch_was_used(agent, optimizer, written):
    step(agent, optimizer, (4, 16, 0))
    agent.step.other_forward((4, 16, 0))
    agent.backward_ran()
    agent.step_skipped(optimizer)
    step(agent, optimizer, (4, 16, 0))
    told = written()
    assert [(r.step, bool(r.flags & FLAG_SKIPPED)) for r in told.records] == [(1, False), (1, True), (2, False)]
    assert told.totals[1:5] == (2, 1, 192, 12)


def test_a_wrapped_optimizer_is_counted_at_its_outermost_step(agent, optimizer, written):
    outer = torch.optim.SGD(optimizer.param_groups[0]["params"], lr=0.1)
    for _ in range(3):
        agent.step.other_forward((4, 16, 0))
        agent.backward_ran()
        agent.optimizer_enters(outer)
        agent.optimizer_enters(optimizer)
        agent.optimizer_leaves(optimizer)
        agent.optimizer_leaves(outer)
    assert written().totals.steps == 3


def test_a_step_that_raised_leaves_the_next_ones_right(agent, optimizer, written):
    agent.backward_ran()
    agent.optimizer_enters(optimizer)  # and its post-hook never comes
    step(agent, optimizer, (4, 16, 0))
    step(agent, optimizer, (4, 16, 0))
    assert [r.step for r in written().records] == [1, 2]
    assert agent.step.in_optimizer == 0


def test_an_inner_optimizer_that_raised_inside_an_outer_one_heals(agent, optimizer):
    outer = torch.optim.SGD(optimizer.param_groups[0]["params"], lr=0.1)
    agent.backward_ran()
    agent.optimizer_enters(outer)
    agent.optimizer_enters(optimizer)
    agent.optimizer_leaves(outer)
    assert (agent.step.in_optimizer, agent.ended.steps) == (0, 1)


def test_a_new_optimizer_at_the_address_of_a_freed_one_is_met_anew(agent):
    first = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
    step(agent, first, (1, 2, 0))
    key = id(first)
    assert agent._numel[key] == 8
    del first
    assert key not in agent._numel
    second = torch.optim.SGD(nn.Linear(30, 2).parameters(), lr=0.1)
    step(agent, second, (1, 2, 0))
    assert agent._numel[id(second)] == 62
    assert agent.ended.steps == 2


def test_nothing_is_kept_on_or_of_the_users_optimizer(agent):
    optimizer = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
    before = pickle.dumps(optimizer)
    step(agent, optimizer, (1, 2, 0))
    assert pickle.dumps(optimizer) == before
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


def test_the_tail_is_time_after_the_last_step(agent, optimizer, written):
    step(agent, optimizer, (4, 16, 0))
    agent.finish()
    agent.finish()
    assert [r.type for r in written().records] == [STEP_RECORD, TAIL_RECORD]
    assert written().records[1].wall_s >= 0


def test_the_wall_times_join_without_a_gap(agent, optimizer, written):
    for _ in range(4):
        step(agent, optimizer, (4, 16, 0))
    agent.finish()
    records = written().records
    assert sum(r.wall_s for r in records) == pytest.approx(records[-1].end - agent.identity.process_start, abs=1e-3)


def test_a_process_that_never_steps_leaves_no_ring(agent, spool):
    agent.backward_ran()
    agent.finish()
    assert [path.name.partition("-")[0] for path in spool.iterdir()] == ["agent"]


def test_a_spool_that_cannot_be_written_is_told_and_training_goes_on(tmp_path, optimizer, lenient):
    agent = Agent(str(tmp_path / "gone"))
    step(agent, optimizer, (4, 16, 0))
    step(agent, optimizer, (4, 16, 0))
    assert (agent.ended.steps, agent.ended.ring, agent.ring_refused) == (2, None, True)
    agent.finish()


def test_the_rank_may_appear_only_with_the_first_step(spool, optimizer, monkeypatch, written):
    agent = Agent(str(spool))
    agent.event("span", {"kind": "checkpoint", "seconds": 1.0})
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    step(agent, optimizer, (4, 16, 0))
    assert {path.name for path in spool.glob("r3-*")} == {f"r3-{os.getpid()}.ring", f"r3-{os.getpid()}.jsonl"}
    assert written("r3-*").of("process")[0]["world_size"] == 8


def test_a_rank_that_is_no_number_is_rank_0(spool, monkeypatch):
    monkeypatch.setenv("RANK", "two")
    assert Agent(str(spool)).identity.rank == 0


def test_a_forked_child_is_a_process_of_its_own_and_silent_until_it_steps(agent, optimizer, written, spool):
    step(agent, optimizer, (4, 16, 0))
    script = (
        "import os, sys\n"
        "from trainmeter_core.inside import this_process as module\n"
        "import torch\n"
        "agent = module.agent_of_this_process()\n"
        "optimizer = torch.optim.SGD([torch.zeros(2)], lr=0.1)\n"
        "def step():\n    agent.step.other_forward((2, 3, 0)); agent.backward_ran()\n    agent.optimizer_enters(optimizer); agent.optimizer_leaves(optimizer)\n"
        "step()\n"
        "for trains in (False, True):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        if trains: step(); step()\n"
        "        sys.exit()\n"
        "    os.waitpid(child, 0)\n"
        "step()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TRAINMETER_SPOOL": str(spool)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rings = [path for path in spool.glob("*.ring") if str(os.getpid()) not in path.name]
    assert sorted(written(path.stem).totals.steps for path in rings) == [2, 2]
    assert len(list(spool.glob("agent-*"))) == 4


def test_an_agent_is_made_once_per_process(monkeypatch, spool):
    monkeypatch.setattr(this_process, "_agent", None)
    monkeypatch.setenv("TRAINMETER_SPOOL", str(spool))
    monkeypatch.setattr("atexit.register", lambda f: f)
    monkeypatch.setattr("os.register_at_fork", lambda **_: None)
    assert this_process.current_agent() is None
    agent = this_process.agent_of_this_process()
    assert this_process.agent_of_this_process() is this_process.current_agent() is agent


def test_an_install_that_fails_leaves_the_module_untapped(agent, lenient):
    def install(tapped, agent):
        raise AttributeError("another version of torch")

    agent.install("data", install, torch)
    assert agent.undo == []


def test_two_threads_that_make_their_first_step_at_once_are_one_trainer(agent, optimizer, written, monkeypatch):
    """The second one's is not taken for another process's."""
    first_step = Agent._first_step

    def slow(self, *args, **more):
        monkeypatch.undo()
        thread = threading.Thread(target=step, args=(agent, optimizer, (4, 16, 0)))
        thread.start()
        thread.join()
        first_step(self, *args, **more)

    monkeypatch.setattr(Agent, "_first_step", slow)
    step(agent, optimizer, (4, 16, 0))
    step(agent, optimizer, (4, 16, 0))
    assert [bool(record.flags & FLAG_STARTUP) for record in written().records] == [True, False]
    assert (written().of("failure"), agent.ring_refused) == ([], False)
