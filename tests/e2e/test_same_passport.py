"""One training run, seen through its run directory and through its tracker, gives the same passport."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from trainmeter_core.passport.same import MAY_DIFFER, differences

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

TM = [sys.executable, "-m", "trainmeter_core"]

TRAIN = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, input_ids):
        return self.head(self.embedding(input_ids))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with SummaryWriter(sys.argv[1]) as writer:
    for step, batch in enumerate(DataLoader(torch.randint(50, (48, 32)), batch_size=4)):
        loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss.item(), step)
"""


def passport(env, *words):
    done = subprocess.run([*TM, "passport", *words, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_read_from_tensorboard_is_the_run_in_its_directory_but_for_the_listed_fields(tmp_path):
    script, logdir = tmp_path / "train.py", tmp_path / "logs"
    script.write_text(TRAIN)
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [*TM, "--peak-tflops", "1", "--convention", "hf", "--budget-steps", "12", sys.executable, str(script), str(logdir)],
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    here, there = passport(env), passport(env, str(logdir))
    assert here["data"]["steps"]["value"] == 12
    assert here["data"]["tokens"]["value"] == 48 * 32
    assert here["efficiency"]["mfu_pct"] is not None
    assert here["identity"]["script"] == str(script)
    assert differences(here, there) == []
    assert all(name.partition(".")[0] in here for name in MAY_DIFFER)
