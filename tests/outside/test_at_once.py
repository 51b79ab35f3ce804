"""Processes of one rank that train at the same time, in programs that run under `tm` as they are."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems
from trainmeter_core.runlog.locate import latest_run

TRAINING = """
import multiprocessing, os, time, torch
torch.set_num_threads(1)
layer = torch.nn.Embedding(8, 4)
optimizer = torch.optim.Adam(layer.parameters())
def train(steps, seconds=0.0):
    for _ in range(steps):
        layer(torch.ones(2, 4, dtype=torch.long)).sum().backward()
        optimizer.step()
        time.sleep(seconds)
def child(steps, seconds=0.0):
    process = multiprocessing.get_context("fork").Process(target=train, args=(steps, seconds))
    process.start()
    return process
"""
FORKED = """
train(3)
pid = os.fork()
train(10, 0.05)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
"""
SILENT_PARENT = """
train(3)
child(5).join()
"""
BESIDE = """
children = [child(10, 0.05), child(10, 0.05)]
for one in children:
    one.join()
"""
IN_TURN = """
for steps in (2, 3, 4):
    child(steps).join()
"""


@pytest.fixture
def passport(tm, program, tmp_path, monkeypatch):
    """The passport of a program under tm."""
    pytest.importorskip("torch")
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))

    def of(source):
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*tm, "--no-web", "--quiet", program(TRAINING + source)], env=env, check=True)
        told = json.loads((latest_run() / "passport.json").read_text())
        assert problems(told) == []
        assert check(told) == []
        return told

    return of


def came_to(told):
    return [told["time"]["restarts"]["value"], told["time"]["lost_steps"]["value"], told["data"]["steps"]["value"]]


def test_a_forked_child_that_trains_beside_its_parent_is_no_restart(passport):
    """Both have their steps and tokens in the sums; the time that they shared counts once in the rates."""
    told = passport(FORKED)
    assert came_to(told) == [0, 0, 3 + 10 + 10]
    assert told["data"]["tokens"]["value"] == 23 * 8
    seconds = told["steady"]["seconds"]["value"]
    assert seconds < told["time"]["rank_seconds"]["other"]["value"]
    assert told["efficiency"]["tokens_per_s"]["value"] == pytest.approx(21 * 8 / seconds)


def test_nor_is_one_whose_parent_only_waits_for_it(passport):
    assert came_to(passport(SILENT_PARENT)) == [0, 0, 3 + 5]


def test_children_at_work_at_once_are_no_restarts(passport):
    assert came_to(passport(BESIDE)) == [0, 0, 20]


def test_children_that_follow_each_other_are(passport):
    assert came_to(passport(IN_TURN)) == [2, 2 + 3, 9]
