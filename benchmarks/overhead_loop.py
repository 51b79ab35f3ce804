"""The loop that overhead.py times: a small GPT on random tokens through a DataLoader, a fixed number of steps.

With a tracker the loss is logged after every step, as such a loop would do it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from overhead_model import LENGTH, VOCAB, Gpt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Callable

out, tracker = sys.argv[1:3]
steps, width, layers, micro_batches = (int(word) for word in sys.argv[3:7])
torch.manual_seed(0)
torch.set_num_threads(1)


def log_of(tracker: str) -> Callable[[float, int], object]:
    """How the loss is logged."""
    if tracker == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(out + ".tb")
        return lambda loss, step: writer.add_scalar("loss", loss, step)
    if tracker == "wandb":
        import wandb

        run = wandb.init(mode="offline", dir=out + ".wandb", settings=wandb.Settings(silent=True))
        return lambda loss, step: run.log({"loss": loss}, step=step)
    if tracker == "mlflow":
        import mlflow

        mlflow.set_tracking_uri("sqlite:///" + out + ".db")
        mlflow.start_run()
        return lambda loss, step: mlflow.log_metric("loss", loss, step=step, synchronous=False)
    return lambda _loss, _step: None


log = log_of(tracker)
model = Gpt(width, layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randint(0, VOCAB, (steps * micro_batches, LENGTH + 1))
batches = iter(DataLoader(TensorDataset(data), batch_size=1))
times = []
for step in range(steps):
    start = time.perf_counter()
    for _ in range(micro_batches):
        (batch,) = next(batches)
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    log(loss.item(), step)
    times.append((time.perf_counter() - start) * 1e6)
Path(out).write_text(json.dumps({"us": times}))
