"""A model class of `__main__` sent to another process by value, as Ray and joblib do it, between two training steps."""

import subprocess
import sys

import cloudpickle
import torch
from tiny import digest
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 32)

    def forward(self, ids):
        return self.head(self.table(ids))


THERE = """
import os, sys
sys.path[:0] = eval(os.environ["HERE"])
import cloudpickle, torch
model = cloudpickle.load(sys.stdin.buffer)
print(list(vars(type(model))))
print(model(torch.zeros(1, 2, dtype=torch.long)).sum().item().hex())
"""

torch.manual_seed(0)
model = Words()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    ids = torch.randint(0, 32, (3, 7))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 2:
        there = subprocess.run(
            [sys.executable, "-S", "-c", THERE],
            input=cloudpickle.dumps(model), stdout=subprocess.PIPE, check=True, env={"HERE": repr(sys.path)},
        )  # fmt: skip
        print(step, there.stdout.decode())
print(digest(model))
