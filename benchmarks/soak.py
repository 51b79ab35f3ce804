"""Two hours of optimizer steps of a millisecond with three trackers at once: what grows, in the trainer and in `tm`.

    tm --quiet benchmarks/soak.py [SECONDS OUTPUT.jsonl]

Every minute a line goes to OUTPUT.jsonl: steps so far; resident memory and open descriptors of the trainer and of `tm`;
bytes of the run directory, of the spool and of each tracker's own files.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import mlflow
import wandb

MINUTE = 60.0
LOG_EVERY, MLFLOW_EVERY = 10, 1000

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 7200.0
output = Path(sys.argv[2] if len(sys.argv) > 2 else "soak.jsonl")
torch.manual_seed(0)
torch.set_num_threads(1)


def size_of(place: str | None) -> int:
    """Bytes of the files under a directory."""
    if not place:
        return 0
    return sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())


def grown(began: float, steps: int, places: dict[str, str | None]) -> dict[str, float]:
    """A line of the report."""
    line: dict[str, float] = {"seconds": round(time.monotonic() - began), "steps": steps}
    for name, process in (("trainer", psutil.Process()), ("tm", psutil.Process().parent())):
        if process is not None:
            line[name + "_rss_mb"] = round(process.memory_info().rss / 1e6, 1)
            line[name + "_descriptors"] = process.num_fds()
    line.update({name + "_kb": round(size_of(place) / 1e3) for name, place in places.items()})
    return line


def main() -> None:
    home = tempfile.mkdtemp(prefix="soak-")
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=home)
    mlflow.set_tracking_uri(f"sqlite:///{home}/mlflow.db")
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 64, (4, 17))
    places = {
        "run": os.environ.get("TRAINMETER_RUN"),
        "spool": os.environ.get("TRAINMETER_SPOOL"),
        "tensorboard": home + "/tb",
        "wandb": home + "/wandb",
    }
    began = last = time.monotonic()
    steps = 0
    with SummaryWriter(home + "/tb") as writer, wandb.init(project="soak") as run, mlflow.start_run():
        while time.monotonic() - began < seconds:
            start = time.monotonic()
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps % LOG_EVERY == 0:
                writer.add_scalar("loss", loss.item(), steps)
                run.log({"loss": loss.item()}, step=steps)
            if steps % MLFLOW_EVERY == 0:
                mlflow.log_metric("loss", loss.item(), step=steps)
            if start - last >= MINUTE:
                last = start
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(grown(began, steps, places)) + "\n")
            time.sleep(max(0.0, 0.001 - (time.monotonic() - start)))


main()
