"""The loop that overhead.py times: a small GPT on random tokens through a DataLoader, a fixed number of steps."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

out, steps, width, layers, micro_batches = sys.argv[1], *(int(word) for word in sys.argv[2:6])
torch.manual_seed(0)
torch.set_num_threads(1)
VOCAB, LENGTH = 64, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.blocks = nn.Embedding(VOCAB, width), nn.Sequential(*(Block() for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCAB)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids))))


model = Gpt()
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
