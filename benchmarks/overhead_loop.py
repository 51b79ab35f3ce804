"""The loop that overhead.py times: a small GPT on random tokens through a DataLoader, a fixed number of steps."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from overhead_model import LENGTH, VOCAB, Gpt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

out, steps, width, layers, micro_batches = sys.argv[1], *(int(word) for word in sys.argv[2:6])
torch.manual_seed(0)
torch.set_num_threads(1)

model = Gpt(width, layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randint(0, VOCAB, (steps * micro_batches, LENGTH + 1))
batches = iter(DataLoader(TensorDataset(data), batch_size=1))
times = []
for _ in range(steps):
    start = time.perf_counter()
    for _ in range(micro_batches):
        (batch,) = next(batches)
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append((time.perf_counter() - start) * 1e6)
Path(out).write_text(json.dumps({"us": times}))
