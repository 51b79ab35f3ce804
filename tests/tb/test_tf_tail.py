"""A torch loop that logs by tf.summary: its C++ writer cannot be tapped, so that its file is followed.

TensorFlow itself is too large for these tests: a stand-in has its modules, names and event files.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tb import reading
from tests.tb.agent_in_test import Agent
from trainmeter_tb import plugin, tf
from trainmeter_tb.records import framed
from trainmeter_tb.tail import Tail

STAND_IN = Path(__file__).parents[1] / "fakes" / "tensorflow"
PROGRAMS = Path(__file__).parents[1] / "e2e" / "programs"
PROGRAM = """
import sys, time
import torch
import tensorflow as tf
from tiny import GPT, config, tokens
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters())
writer = tf.summary.create_file_writer(sys.argv[1])
with writer.as_default():
    for step in range(1, 26):
        batch = tokens(2, 17)
        loss = model(batch[:, :-1], batch[:, 1:])[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tf.summary.scalar("train/loss", loss.item(), step=step)
        time.sleep(0.1)
    tf.summary.flush()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run under tm: its log directory and its run directory."""
    folder = tmp_path_factory.mktemp("tf")
    (folder / "train.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": f"{STAND_IN}:{PROGRAMS}", "TRAINMETER_HOME": str(folder / "home")}
    logdir = folder / "logs"
    words = [sys.executable, "-m", "trainmeter_core", "--peak-tflops", "0.1", str(folder / "train.py"), str(logdir)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env={**env, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "trainmeter itself failed" not in done.stderr
    [directory] = (folder / "home" / "runs").iterdir()
    return logdir, directory, done.stderr


def test_the_series_stand_in_the_child_run_at_the_optimizers_steps(run):
    logdir = run[0]
    steps = reading.scalars(logdir / "trainmeter", "trainmeter/step")
    assert len(steps) >= 2, "they came while the run went on"
    assert steps[-1] == (25, 25.0)
    assert all(step == value for step, value in steps)
    assert reading.scalars(logdir / "trainmeter", "trainmeter/tokens")[-1] == (25, 25 * 2 * 16.0)
    [(_, text)] = reading.strings(logdir / "trainmeter", "trainmeter/passport_json")
    assert json.loads(text)["data"]["steps"]["value"] == 25


def test_the_users_own_file_holds_what_they_wrote(run):
    logdir = run[0]
    assert len(reading.files(logdir)) == 1
    assert {value.tag for event in reading.events(logdir) for value in event.summary.value} == {"train/loss"}


def test_the_losses_come_from_the_file(run):
    logdir, directory, _ = run
    passport = json.loads((directory / "passport.json").read_text())
    logged = reading.scalars(logdir, "train/loss")
    assert len(logged) == 25
    loss = passport["losses"]["train/loss"]
    assert loss["first"]["value"]["value"] == logged[0][1]
    assert loss["last"]["value"]["value"] == logged[-1][1]
    assert loss["best"]["value"]["value"] == min(value for _, value in logged)


def test_tm_names_the_directory_and_writes_no_files_of_its_own(run):
    logdir, directory, said = run
    assert f"look at this run: tensorboard --logdir {logdir}" in said
    assert not (directory / "tb").exists()


@pytest.fixture
def tensorflow(monkeypatch):
    monkeypatch.syspath_prepend(str(STAND_IN))
    yield importlib.import_module(tf.MODULE)
    for name in [each for each in sys.modules if each.split(".")[0] == "tensorflow"]:
        del sys.modules[name]


def test_the_function_is_what_it_was_after_the_undo(tensorflow, agent):
    before = tensorflow.create_file_writer_v2
    undo = plugin.install_tap(tensorflow, agent)
    assert tensorflow.create_file_writer_v2 is not before
    assert tensorflow.create_file_writer_v2.__doc__ == before.__doc__
    undo()
    assert tensorflow.create_file_writer_v2 is before
    plugin._children.clear()


@pytest.fixture
def untorched(monkeypatch):
    """As in a program that never imports torch."""
    monkeypatch.setattr(tf, "_TORCH", "torch.that.is.not.there")


def test_without_torch_the_machines_readings_stand_at_the_users_own_steps(tensorflow, agent, tmp_path, untorched):
    """A Keras model's training is not seen: there are no steps, rates or shares of ours, and no passport."""
    agent.row = lambda final=False, reader="": None
    agent.passport = lambda: None
    undo = plugin.install_tap(tensorflow, agent)
    child = plugin._children[id(agent)]
    with tensorflow.create_file_writer_v2(logdir=tmp_path / "logs"):
        for step in (3, 7):
            tensorflow.scalar("epoch_loss", 1.0, step=step)
            tensorflow.flush()
            child.look()
        child.look()
    plugin.finish(agent)
    undo()
    beside = tmp_path / "logs" / "trainmeter"
    assert {value.tag for event in reading.events(beside) for value in event.summary.value} == {
        "trainmeter/node/load_1", "custom_scalars__config__", "trainmeter/version",
    }  # fmt: skip
    assert reading.scalars(beside, "trainmeter/node/load_1") == [(3, 1.5), (7, 1.5)]
    assert agent.observed == [({"epoch_loss": 1.0}, 3), ({"epoch_loss": 1.0}, 7)]


def test_where_torch_is_to_step_nothing_is_written_before_it_does(tensorflow, agent, tmp_path, monkeypatch):
    monkeypatch.setattr(tf, "_TORCH", "sys")
    agent.row = lambda final=False, reader="": None
    undo = plugin.install_tap(tensorflow, agent)
    with tensorflow.create_file_writer_v2(logdir=tmp_path / "logs"):
        tensorflow.scalar("epoch_loss", 1.0, step=0)
        tensorflow.flush()
    plugin.finish(agent)
    undo()
    assert not (tmp_path / "logs" / "trainmeter").exists()
    assert agent.observed == [({"epoch_loss": 1.0}, 0)]


def test_of_several_ranks_with_one_directory_one_writes(tensorflow, tmp_path):
    """Each follows the losses; the rows of two would be a zigzag, and TensorBoard polls one file of a run."""
    ranks = [Agent(), Agent()]
    children = [tf.ChildRun(agent) for agent in ranks]
    for agent, child in zip(ranks, children, strict=True):
        child.opened(tmp_path)
        agent.step()
    for agent, child in zip(ranks, children, strict=True):
        agent.step()
        child.finish()
    assert len(reading.files(tmp_path / "trainmeter")) == 1
    assert [step for step, _ in reading.scalars(tmp_path / "trainmeter", "trainmeter/step")] == [1, 2]
    assert [len(agent.places) for agent in ranks] == [1, 0]


def test_a_forked_child_writes_nothing(tensorflow, agent, tmp_path, monkeypatch):
    undo = plugin.install_tap(tensorflow, agent)
    tensorflow.create_file_writer_v2(str(tmp_path))
    monkeypatch.setattr(plugin._children[id(agent)], "_owner", -1)
    agent.step()
    plugin.finish(agent)
    undo()
    assert not (tmp_path / "trainmeter").exists()


def test_half_a_record_is_waited_for(tmp_path):
    path = tmp_path / "events.out.tfevents.1.v2"
    path.write_bytes(framed(b"before"))
    tail = Tail(str(tmp_path))
    whole = framed(b"new")
    with path.open("ab") as file:
        file.write(whole[:7])
        file.flush()
        assert list(tail.new()) == []
        file.write(whole[7:] + framed(b"next"))
    assert list(tail.new()) == [b"new", b"next"]
    assert list(tail.new()) == []


def test_large_records_are_passed_over_and_a_damaged_file_is_left(tmp_path):
    tail = Tail(str(tmp_path))
    (tmp_path / "events.out.tfevents.1.v2").write_bytes(
        framed(b"a") + framed(b"image" * 10_000) + framed(b"b") + b"x" * 40
    )
    assert list(tail.new()) == [b"a", b"b"]
    (tmp_path / "events.out.tfevents.2.v2").write_bytes(framed(b"c"))
    assert list(tail.new()) == [b"c"]
