"""A model so small that a test trains it hundreds of times."""

from __future__ import annotations

import torch
from torch import nn

VOCAB = 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.out = nn.Embedding(VOCAB, 8), nn.Linear(8, VOCAB)

    def forward(self, ids):
        return self.out(self.emb(ids))


def train(steps: int) -> None:
    """Steps that are all alike: one micro-batch of ten tokens each."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
        optimizer.step()
