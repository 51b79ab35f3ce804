"""A training of a twentieth of a second that uses everything that is tapped; and what is left of it to compare."""

from __future__ import annotations

import hashlib
import io

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)  # the fork of a process with OpenMP's threads would wait for them for ever

STEPS = 4
ROWS = torch.arange(STEPS * 2 * 6).view(STEPS * 2, 6) % 11


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11)

    def forward(self, ids):
        return self.head(self.embedding(ids))


def train(log=lambda step, values: None):
    """Train with a loader, a scaler, an evaluation and a checkpoint; `log` is the user's own tracker call."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    losses = []
    for step, batch in enumerate(DataLoader(ROWS, batch_size=2)):
        loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item().hex())
        log(step, {"train/loss": loss.item(), "lr": 0.1})
    model.eval()
    with torch.no_grad():
        losses.append(model(ROWS).sum().item().hex())
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    bits = hashlib.sha256()
    for value in torch.load(io.BytesIO(saved.getvalue()), weights_only=True).values():
        bits.update(value.numpy().tobytes())
    return losses, bits.hexdigest()
