"""`tm` around real training programs: the framework's own W&B logger carries our series, and its own values stay."""

from __future__ import annotations

import json
import socket
import sys

import pytest

MODEL = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(64, 16)
        self.head = torch.nn.Linear(16, 64)
    def forward(self, input_ids, labels=None):
        logits = self.head(self.embed(input_ids))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), input_ids.flatten())
        return {"loss": loss, "logits": logits}
data = [{"input_ids": torch.arange(i, i + 8) % 64, "labels": torch.arange(8)} for i in range(48)]
"""

LOOP = """
import wandb, time
model = Tiny()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = wandb.init(project="p")
for step in range(STEPS):
    loss = model(torch.stack([row["input_ids"] for row in data[:4]]))["loss"]
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    wandb.log({"loss": loss.item()})
    time.sleep(PAUSE)
"""
LIGHTNING = """
import lightning
from lightning.pytorch.loggers import WandbLogger
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Tiny()
    def training_step(self, batch):
        loss = self.model(batch["input_ids"])["loss"]
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
lightning.Trainer(
    max_steps=6, log_every_n_steps=1, logger=WandbLogger(project="p"), accelerator="cpu", barebones=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
).fit(Module(), torch.utils.data.DataLoader(data, batch_size=4))
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
arguments = TrainingArguments(
    output_dir="out", max_steps=6, logging_steps=1, report_to="wandb", per_device_train_batch_size=4, use_cpu=True,
    save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
)
Trainer(model=Tiny(), args=arguments, train_dataset=data).train()
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(log_with="wandb", cpu=True)
accelerator.init_trackers("p", config={"lr": 0.1})
model = Tiny()
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(data[:24], batch_size=4)
)
for step, batch in enumerate(loader):
    loss = model(batch["input_ids"])["loss"]
    accelerator.backward(loss); optimizer.step(); optimizer.zero_grad()
    accelerator.log({"loss": loss.item()}, step=step)
accelerator.end_training()
"""
PROGRAMS = {"plain loop": LOOP, "Lightning": LIGHTNING, "Trainer": TRAINER, "accelerate": ACCELERATE}


def written(directory, text, **values):
    for name, value in values.items():
        text = text.replace(name, str(value))
    (directory / "train.py").write_text(MODEL + text)
    return "train.py"


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_framework_keeps_its_values_and_gets_our_series(tm, backend, tmp_path, name):
    script = written(tmp_path, PROGRAMS[name], STEPS=6, PAUSE=0)
    done = tm(["--peak-tflops", "0.001", script], env=backend.environment(), WANDB_PROJECT="p")
    assert done.returncode == 0, done.stderr
    run = backend.only_run()
    loss = {"Trainer": "train/loss"}.get(name, "loss")
    assert sum(loss in row for row in run.history) == 6
    assert sum("trainmeter/passport" in row for row in run.history) == 1
    assert run.summary["trainmeter/step"] == 6
    assert run.summary["trainmeter/tokens"] == 6 * 4 * 8
    assert run.summary["trainmeter/time/startup"] > 0
    assert f"look at this run: {backend.url}/stub/p/runs/{run.name}" in done.stderr
    assert not backend.unknown_ops


def test_a_program_whose_client_is_turned_off_is_measured_all_the_same(tm, backend, tmp_path):
    """As a run without a tracker; nothing reaches the server."""
    script = written(tmp_path, LOOP, STEPS=6, PAUSE=0)
    done = tm(["--no-web", script], env={**backend.environment(), "WANDB_MODE": "disabled"})
    assert done.returncode == 0, done.stderr
    assert "look at this run: tensorboard --logdir" in done.stderr
    (passport,) = (tmp_path / "trainmeter" / "runs").glob("*/passport.json")
    assert json.loads(passport.read_text())["data"]["tokens"]["value"] == 6 * 4 * 8
    assert not backend.runs
    assert not backend.operations.counts


DDP = """
import os, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
import wandb
model = torch.nn.parallel.DistributedDataParallel(Tiny())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = wandb.init(project="p", id=f"rank{rank}", group="g") if EVERY or rank == 0 else None
for step in range(4):
    loss = model(torch.stack([row["input_ids"] for row in data[:4]]))["loss"]
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    if run is not None:
        run.log({"loss": loss.item()})
dist.barrier()
if run is not None:
    run.finish()
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("every", [False, True], ids=["rank 0 logs", "every rank has a run"])
def test_under_ddp_a_run_counts_what_all_ranks_do(tm, backend, tmp_path, every):
    script = written(tmp_path, DDP, EVERY=every)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    done = tm(["--", *torchrun, script], env=backend.environment(), timeout=100)
    assert done.returncode == 0, done.stderr
    assert sorted(run.name for run in backend.runs.values()) == (["rank0", "rank1"] if every else ["rank0"])
    for run in backend.runs.values():
        assert [row["loss"] for row in run.history if "loss" in row] != []
        assert sum("trainmeter/passport" in row for row in run.history) == 1
        assert run.summary["trainmeter/tokens"] == 2 * 4 * 4 * 8
    assert not backend.unknown_ops
