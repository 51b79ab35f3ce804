"""Forked children under `tm`: one that trains and begins a run of its own has our series, any other is left alone."""

from __future__ import annotations

import os

import pytest

from tests.wandb.conftest import users
from tests.wandb.test_frameworks import MODEL
from trainmeter_core.passport.page import passport_in

PROGRAM = """
import multiprocessing, os, wandb
tokens = torch.stack([row["input_ids"] for row in data[:4]])
def training(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        loss = model(tokens)["loss"]
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        yield loss.item()
def trains(name, model, steps):
    run = wandb.init(project="p", id=name)
    losses = training(model)
    for step in range(steps):
        run.log({"loss": next(losses), "at": step})
    run.finish()
def evaluates(name):
    with wandb.init(project="p", id=name) as run:
        for step in range(3):
            run.log({"accuracy": step, "loss": 0.5})
def child(function, *words):
    process = multiprocessing.get_context("fork").Process(target=function, args=words)
    process.start(); process.join()
    assert not process.exitcode, (function, process.exitcode)

with wandb.init(project="p", id="parent") as run:
    losses = training(mine := Tiny())
    for step in range(6):
        if step == 3:
            child(trains, "own model", Tiny(), 4)
            child(trains, "inherited model", mine, 5)
            child(evaluates, "no training")
            if not (pid := os.fork()):
                trains("os.fork", Tiny(), 2)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        run.log({"loss": next(losses), "at": step})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_that_trains_publishes_to_its_own_run_and_the_parent_to_its_own(tm, backend, tmp_path):
    (tmp_path / "train.py").write_text(MODEL + PROGRAM)
    done = tm(["train.py"], env=backend.environment())
    assert done.returncode == 0, done.stderr
    runs = {run.name: run for run in backend.runs.values()}
    for name, steps in {"parent": 6, "own model": 4, "inherited model": 5, "os.fork": 2}.items():
        run = runs[name]
        assert [row["at"] for row in users(run.history)] == list(range(steps)), name
        assert run.summary["trainmeter/step"] == steps, name
        assert run.summary["trainmeter/tokens"] == steps * 4 * 8, name
        passport = passport_in(run.files[run.history[-1]["trainmeter/passport"]["path"]].decode())
        assert passport["data"]["tokens"]["value"] == steps * 4 * 8, name
        assert passport["model"]["description"]["class"] == "Tiny", name
        assert [each["where"]["id"] for each in passport["identity"]["trackers"]] == [name]
        assert passport["losses"]["loss"]["count"]["value"] == steps, name
    bare = runs["no training"]
    assert [row["accuracy"] for row in users(bare.history)] == [0, 1, 2]
    assert not any(name.startswith("trainmeter") for row in bare.history for name in row)
    assert "trainmeter" not in bare.user_config()
    assert not backend.unknown_ops
