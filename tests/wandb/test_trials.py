"""`tm` around a program with several W&B runs, as a sweep's agent makes them: each holds what was done during it."""

from __future__ import annotations

import json
import sys

import pytest

from tests.wandb.test_frameworks import LOOP, written
from trainmeter_core.passport.check import check
from trainmeter_core.passport.page import passport_in
from trainmeter_core.passport.schema import problems

# As `wandb.agent(sweep, function=trial)` does it: each trial on a thread of its own, each with a model of its own size.
# The models are kept, as a cycle of references would keep them; the optimizers too.
TRIALS = """
import threading, torch, wandb
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(1)
kept = []
def trial(number, layers):
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=16, n_head=2, vocab_size=64, n_positions=32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept.append((model, optimizer))
    with wandb.init(project="p", id=f"trial{number}") as run:
        for step in range(4 + number):
            tokens = torch.randint(0, 64, (2, 8))
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            run.log({"loss": 10.0 * number + step})
for number, layers in enumerate((1, 3, 2)):
    thread = threading.Thread(target=trial, args=(number, layers))
    thread.start(); thread.join()
"""


@pytest.fixture
def passports(tm, backend, tmp_path):
    """The passport of each run, by the run's name, and the runs."""
    (tmp_path / "train.py").write_text(TRIALS)
    done = tm(["--peak-tflops", "0.001", "train.py"], env=backend.environment(), TRAINMETER_STRICT="1")
    assert done.returncode == 0, done.stderr
    assert not backend.unknown_ops
    runs = {run.name: run for run in backend.runs.values()}
    pages = {name: run.files[run.history[-1]["trainmeter/passport"]["path"]].decode() for name, run in runs.items()}
    return {name: passport_in(page) for name, page in pages.items()}, runs


def test_each_trial_of_a_sweep_has_a_passport_of_its_own(passports):
    told, runs = passports
    for number, layers in enumerate((1, 3, 2)):
        name = f"trial{number}"
        passport, run, steps = told[name], runs[name], 4 + number
        assert problems(json.loads(json.dumps(passport))) == []
        assert check(passport) == []
        assert passport["data"]["steps"]["value"] == steps
        assert passport["data"]["tokens"]["value"] == steps * 2 * 8
        assert passport["model"]["layers"]["value"] == layers
        # Losses of this run alone, at its own steps.
        first, last = passport["losses"]["loss"]["first"], passport["losses"]["loss"]["last"]
        assert (first["value"]["value"], first["step"]["value"]) == (10.0 * number, 1)
        assert (last["value"]["value"], last["step"]["value"]) == (10.0 * number + steps - 1, steps)
        # The run's own rows, summary and config say the same.
        per_token = passport["compute"]["flops_per_token"]["torchtitan"]["value"]
        assert run.summary["trainmeter/step"] == steps
        assert run.summary["trainmeter/tokens"] == steps * 2 * 8
        assert run.summary["trainmeter/flops"] == steps * 2 * 8 * per_token
        assert run.user_config()["trainmeter"]["parameters"] == passport["model"]["parameters_total"]["value"]
        assert [where["where"]["id"] for where in passport["identity"]["trackers"]] == [name]
        assert sum("trainmeter/passport" in row for row in run.history) == 1


def test_a_later_trial_says_that_it_is_part_of_a_process(passports):
    told, _ = passports
    codes = {name: [verdict["code"] for verdict in passport["verdicts"]] for name, passport in told.items()}
    assert "part-of-a-process" not in codes["trial0"]
    assert "part-of-a-process" in codes["trial1"]
    assert told["trial0"]["identity"]["started"] <= told["trial1"]["identity"]["started"]


def test_a_sweeps_agent_under_tm_gives_each_program_that_it_starts_its_own_figures(tm, backend, tmp_path):
    """`tm -- wandb agent SWEEP`: the client's own agent asks for trials and starts a program for each."""
    script = written(tmp_path, LOOP, STEPS=6, PAUSE=0)
    backend.begin_sweep([sys.executable, script], {"one": {"lr": 0.1}, "two": {"lr": 0.2}})
    done = tm(["--", sys.executable, "-m", "wandb", "agent", "stub/p/s"], env=backend.environment())
    assert done.returncode == 0, done.stderr
    runs = {run.name: run for run in backend.runs.values()}
    assert sorted(runs) == ["one", "two"]
    for name, run in runs.items():
        passport = passport_in(run.files[run.history[-1]["trainmeter/passport"]["path"]].decode())
        assert (passport["data"]["steps"]["value"], passport["data"]["tokens"]["value"]) == (6, 6 * 4 * 8)
        assert [where["where"]["id"] for where in passport["identity"]["trackers"]] == [name]
        assert run.summary["trainmeter/step"] == 6
        assert run.user_config()["lr"] == {"one": 0.1, "two": 0.2}[name]
        assert len(list((tmp_path / "wandb").glob(f"run-*-{name}"))) == 1
    kept = [json.loads(path.read_text()) for path in tmp_path.rglob("runs/*/passport.json")]
    assert sorted(passport["identity"]["trackers"][0]["where"]["id"] for passport in kept) == ["one", "two"]
    assert all(len(passport["identity"]["trackers"]) == 1 for passport in kept)
    assert [passport["data"]["steps"]["value"] for passport in kept] == [6, 6]
    assert not backend.unknown_ops
