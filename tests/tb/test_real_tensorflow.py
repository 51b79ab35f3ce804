"""TensorFlow itself as the trainer's interpreter, without trainmeter in it: tf.summary in a loop, and Keras.

It is an environment of its own (TRAINMETER_TF_PYTHON names its python, or it is in .venv-tf); `tests/tb/test_tf_tail.py`
has the stand-in that runs everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.known import known
from tests.tb import reading
from tests.tb.tf_python import TF_PYTHON
from trainmeter_tb.events import told_by

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    TF_PYTHON is None, reason="no TensorFlow: .venv-tf is not there, TRAINMETER_TF_PYTHON unset"
)

LOOP = """
import sys, time
import numpy as np
import tensorflow as tf
assert "torch" not in sys.modules
rng = np.random.default_rng(0)
x = rng.normal(size=(256, 8))
y, w = x @ np.arange(8), np.zeros(8)
writer = tf.summary.create_file_writer(sys.argv[1])
@tf.function
def in_a_graph(norm, step):
    tf.summary.scalar("norm", norm, step=step)
with writer.as_default():
    for step in range(1, 41):
        w -= 0.1 * x.T @ (x @ w - y) / 256
        tf.summary.scalar("loss", ((x @ w - y) ** 2).mean(), step=step)
        in_a_graph(tf.constant(np.abs(w).sum()), tf.constant(step, tf.int64))
        writer.flush()
        time.sleep(0.1)
print(w.tobytes().hex())
"""
KERAS = """
import sys, time
import numpy as np
import keras
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
board = keras.callbacks.TensorBoard(sys.argv[1], update_freq=1, profile_batch=0)
slow = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.05))
model.fit(x, x.sum(1, keepdims=True), epochs=3, batch_size=32, verbose=0, callbacks=[board, slow])
print(model.get_weights())
"""
PROGRAMS = {"loop": (LOOP, ""), "keras": (KERAS, "train")}
STEPS = {"loop": {"loss": 40, "norm": 40}, "keras": {"batch_loss": 48, "epoch_loss": 3, "epoch_learning_rate": 3}}


@dataclass
class Pair:
    """The same program without and with `tm`."""

    bare: subprocess.CompletedProcess[str]
    tm: subprocess.CompletedProcess[str]
    logs: tuple[Path, Path]
    passport: dict


@pytest.fixture(scope="module", params=list(PROGRAMS))
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    text, beneath = PROGRAMS[request.param]
    (folder / "train.py").write_text(text)
    env = {
        **os.environ,
        "TRAINMETER_HOME": str(folder / "home"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = {}
    for name, under in {"bare": [], "tm": [sys.executable, "-m", "trainmeter_core", "--"]}.items():
        words = [*under, known(TF_PYTHON), str(folder / "train.py"), str(folder / name)]
        done[name] = subprocess.run(words, capture_output=True, text=True, timeout=240, env=env)
        assert done[name].returncode == 0, done[name].stderr
    [directory] = (folder / "home" / "runs").iterdir()
    passport = json.loads((directory / "passport.json").read_text())
    return request.param, Pair(**done, logs=(folder / "bare" / beneath, folder / "tm" / beneath), passport=passport)


def logged(directory):
    """What the user's own file says, without clock times."""
    return [(told.step, told.scalars) for told in map(told_by, reading.events(directory)) if told.scalars]


def test_the_program_does_what_it_did_and_its_own_file_holds_what_it_held(pair):
    name, run = pair
    assert run.tm.stdout == run.bare.stdout
    bare, under_tm = map(logged, run.logs)
    assert len(reading.files(run.logs[1])) == 1
    assert [[tag for tag, _ in scalars] for _, scalars in under_tm] == [[tag for tag, _ in each] for _, each in bare]
    assert under_tm == bare
    counts: dict[str, int] = {}
    for _, scalars in bare:
        for tag, _ in scalars:
            counts[tag] = counts.get(tag, 0) + 1
    assert counts.items() >= STEPS[name].items()


def test_the_machines_readings_stand_in_the_child_run_at_the_users_steps(pair):
    _, run = pair
    rows = reading.scalars(run.logs[1] / "trainmeter", "trainmeter/node/load_1")
    assert len(rows) >= 2, "they came while the run went on"
    steps = [step for step, _ in rows]
    assert steps == sorted(set(steps))
    assert set(steps) <= {step for step, _ in logged(run.logs[1])}
    assert not reading.scalars(run.logs[1] / "trainmeter", "trainmeter/step")


def test_the_passport_tells_the_losses_and_that_no_step_was_seen(pair):
    name, run = pair
    losses = {tag: count for tag, count in STEPS[name].items() if "loss" in tag}
    assert {tag: loss["count"]["value"] for tag, loss in run.passport["losses"].items()} == losses
    assert run.passport["data"]["steps"]["value"] == 0
    assert {gap["field"]: gap["reason"] for gap in run.passport["gaps"]}["data.tokens"] == "no optimizer step was seen"
    assert "no optimizer step of torch was seen, so there is nothing to count" in run.tm.stderr
    assert f"look at this run: tensorboard --logdir {run.logs[1]}" in run.tm.stderr
    assert "trainmeter itself failed" not in run.tm.stderr
