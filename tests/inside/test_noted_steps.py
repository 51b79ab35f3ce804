"""Steps that the taps noted and nobody has written yet: whoever asks, pauses, is killed or recovered has them all, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.inside.tiny_net import Net, train
from tests.known import known
from trainmeter_core.inside import step_under_way
from trainmeter_core.inside.span_clock import OTHER
from trainmeter_core.outside import drain as drain_module
from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.ring_reader import RingReader
from trainmeter_core.ring_format import ENDED, ENDED_AT, FLAG_BATCH_UNSEEN, MOST_UNWRITTEN
from trainmeter_core.series import TIME_KINDS


@pytest.fixture
def never_late(monkeypatch):
    """A slow machine writes its records no earlier."""
    monkeypatch.setattr(step_under_way, "LATEST_S", 1e9)


def test_an_evaluation_that_the_step_ends_in_ends_with_it(tapped):
    """A closure may evaluate last; what comes after its step is no evaluation."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
        with torch.no_grad():
            model(torch.ones(2, 5, dtype=torch.long))

    for _ in range(3):
        optimizer.step(closure)
        assert (tapped.step.base, tapped.step.current) == (OTHER, OTHER)


def test_steps_noted_after_a_skipped_one_are_not_taken_to_be_like_it(tapped, spool, never_late):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for length in (5, 5, 3, 5, 5, 5):
        scaler.scale(model(torch.ones(2, length, dtype=torch.long)).sum()).backward()
        if length == 3:
            model.out.weight.grad[0, 0] = float("nan")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    reader = RingReader(str(next(spool.glob("*.ring"))))
    assert reader.unwritten() is not None
    assert reader.totals()[1:5] == (5, 1, 10 * 5 + 6, 12)


def test_optimizers_that_step_within_the_backward_make_one_step_of_it(tapped, written):
    """One for each parameter, from its gradient's hook: the batch is used when they step, and the backward goes on."""
    model = Net()
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(lambda parameter: optimizers[parameter].step())
    for length in (5, 5, 5, 3):
        model(torch.ones(2, length, dtype=torch.long)).sum().backward()
        assert tapped.step.base == OTHER
    told = written()
    assert [(record.step, record.tokens) for record in told.records] == [(1, 10), (2, 10), (3, 10), (4, 6)]
    assert not any(record.flags & FLAG_BATCH_UNSEEN for record in told.records)


def test_records_come_a_few_at_a_time_and_nobody_who_asks_misses_a_step(tapped, spool, never_late):
    train(1 + MOST_UNWRITTEN + 3)
    reader = RingReader(str(next(spool.glob("*.ring"))))
    assert (len(list(reader.steps())), known(reader.unwritten()).n) == (1 + MOST_UNWRITTEN, 3)
    assert reader.totals()[1:4:2] == (1 + MOST_UNWRITTEN + 3, 10 * (1 + MOST_UNWRITTEN + 3))
    assert (tapped.ended.steps, tapped.ended.tokens) == (1 + MOST_UNWRITTEN + 3, 10 * (1 + MOST_UNWRITTEN + 3))
    assert (len(list(reader.steps())), reader.unwritten()) == (3, None)


def test_a_slow_step_is_written_at_once(tapped, spool, monkeypatch):
    monkeypatch.setattr(step_under_way, "LATEST_S", 0.0)
    train(5)
    reader = RingReader(str(next(spool.glob("*.ring"))))
    assert (len(list(reader.steps())), reader.unwritten()) == (5, None)


def test_another_thread_may_ask_at_any_moment(tapped, written):
    """No step is lost or told twice, however the two threads take turns."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    seen, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            seen.append(tapped.ended.sums().steps)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        train(3000)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)
    assert seen == sorted(seen)
    assert [record.step for record in written().records] == list(range(1, 3001))
    assert tapped.ended.tokens == 30000


@pytest.mark.parametrize("looks", [(1,), (1, 2, 3), (5, MOST_UNWRITTEN + 1), (3, 3 * MOST_UNWRITTEN)])
def test_who_pauses_is_up_to_date_and_no_step_is_told_twice(looks, tapped, spool, never_late, monkeypatch):
    """Steps that were carried over without a record are left out when their records come; nothing of their time is lost."""
    monkeypatch.setattr(drain_module, "_RESTS_S", 0.0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(DataLoader(TensorDataset(torch.ones(1000, 5, dtype=torch.long)), batch_size=2))
    log: list[dict] = []
    drain = Drain(str(spool), log.append)
    made = 0
    for look in (*looks, 2 * MOST_UNWRITTEN, 2):
        for _ in range(look):
            (batch,) = next(batches)
            model(batch).sum().backward()
            optimizer.step()
        made += look
        drain.poll()
        blocks = [record for record in log if record["type"] == "steps"]
        assert sum(block["n"] for block in blocks) == blocks[-1]["last"] == made
    tapped.ended.catch_up()
    drain.finish()
    blocks = [record for record in log if record["type"] == "steps"]
    assert sum(block["n"] for block in blocks) == made
    assert sum(block["tokens"] for block in blocks) == 10 * made
    sums = tapped.ended.sums()
    steady = sums.since(tapped.ended.startup)
    for kind, spent in zip(TIME_KINDS, steady.seconds, strict=True):
        told = sum(block["time"].get(kind) or 0.0 for block in blocks if not block["startup"])
        assert told == pytest.approx(spent, rel=1e-5, abs=1e-6), kind


def test_a_step_skipped_after_a_pause_is_told(tapped, spool, never_late, monkeypatch):
    """It has the number of the step before it, which was carried over without its record."""
    monkeypatch.setattr(drain_module, "_RESTS_S", 0.0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log: list[dict] = []
    drain = Drain(str(spool), log.append)
    for step in range(6):
        model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
        if step == 3:
            drain.poll()
            tapped.step_skipped(optimizer)
        else:
            optimizer.step()
    drain.finish()
    blocks = [record for record in log if record["type"] == "steps"]
    assert [sum(block[name] for block in blocks) for name in ("n", "skipped", "tokens")] == [5, 1, 60]
    lasted = tapped.ended.last_end - tapped.identity.process_start
    assert sum(block["wall_s"] for block in blocks) == pytest.approx(lasted, rel=1e-4)


@pytest.mark.parametrize("more", [0, 3, MOST_UNWRITTEN + 5])
def test_who_recovers_a_run_does_not_tell_what_was_told_of_a_pause(more, tapped, spool, never_late, monkeypatch):
    """`tm` had carried over steps without a record, and was killed; the program made `more` or none."""
    monkeypatch.setattr(drain_module, "_RESTS_S", 0.0)
    log: list[dict] = []
    drain = Drain(str(spool), log.append)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6 + more):
        model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
        optimizer.step()
        if step == 5:
            drain.poll()
    told = json.loads(json.dumps([record for record in log if record["type"] == "steps"]))
    assert sum(block["n"] for block in told) == 6
    again = Drain(str(spool), log.append)
    again.resume({}, {(0, told[-1]["pid"]): (told[-1]["t"], told[-1]["last"])})
    again.finish()
    blocks = [record for record in log if record["type"] == "steps"]
    assert sum(block["n"] for block in blocks) == blocks[-1]["last"] == 6 + more
    assert sum(block["tokens"] for block in blocks) == 10 * (6 + more)
    for block in blocks:
        assert sum(value or 0.0 for value in block["time"].values()) == pytest.approx(block["wall_s"])
    lasted = tapped.step.last - tapped.identity.process_start
    assert sum(block["wall_s"] for block in blocks) == pytest.approx(lasted, rel=1e-4)


KILLED = """
import os, signal, torch
from torch import nn
model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, {steps} + 1):
    model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
    optimizer.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", [2, MOST_UNWRITTEN, 3 * MOST_UNWRITTEN + 5])
def test_a_killed_process_made_all_its_steps(steps, tmp_path):
    """The last few have no record; how many they were and what their time went to lies in the ring all the same."""
    spool = tmp_path / "spool"
    spool.mkdir()
    code = (
        "import importlib, sys\n"
        "from trainmeter_core.inside import step_under_way\n"
        "from trainmeter_core.inside.agent import Agent\n"
        "step_under_way.LATEST_S = 1e9\n"
        f"agent = Agent({str(spool)!r})\n"
        "for tap, name in (('optimizer', 'torch.optim.optimizer'), ('backward', 'torch.autograd'),"
        " ('model', 'torch.nn.modules.module')):\n"
        "    module = importlib.import_module(name)\n"
        "    agent.install(tap, importlib.import_module('trainmeter_core.inside.taps.' + tap).install, module)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
    began = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code + KILLED.format(steps=steps)], env=environment, check=False)
    assert run.returncode == -signal.SIGKILL
    log: list[dict] = []
    drain = Drain(str(spool), log.append)
    drain.finish()
    blocks = [record for record in log if record["type"] == "steps"]
    assert sum(block["n"] for block in blocks) == blocks[-1]["last"] == steps
    assert sum(block["tokens"] for block in blocks) == 10 * steps
    assert sum(calls for block in blocks for *_, calls in block["batches"]) == steps
    assert 0 < sum(block["wall_s"] for block in blocks) < time.monotonic() - began
    for block in blocks:
        assert sum(value or 0.0 for value in block["time"].values()) == pytest.approx(block["wall_s"])
        assert block["startup"] or block["time"]["step"] > 0


def test_what_stands_in_the_header_is_believed_only_where_it_can_be_true(tapped, spool, never_late):
    train(4)
    [path] = spool.glob("*.ring")
    reader = RingReader(str(path))
    assert known(reader.unwritten())[1:4] == (2, 3, tapped.step.last)
    page = tapped.step.page
    for number, end in (
        (0, 1e9),
        (-1, 1e9),
        (MOST_UNWRITTEN + 2, 1e9),
        (4, 0.0),
        (4, float("nan")),
        (float("nan"), 1e9),
    ):
        page[ENDED], page[ENDED_AT] = number, end
        assert reader.unwritten() is None
