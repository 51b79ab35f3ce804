"""What one `add_scalar` after every step costs a training program: run it bare and under tm, in turns.

    python benchmarks/tb_log.py [STEPS]
    tm --quiet benchmarks/tb_log.py [STEPS]

Processor time of the calling thread, which other work on the machine changes least. The loss is a number by then: what
is measured is the call alone, after a real step that has pushed our code out of the nearest caches.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 64, (4, 16))
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        for step in range(steps):
            loss = nn.functional.cross_entropy(model(tokens).view(-1, 64), tokens.view(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            number = loss.item()
            begin = time.thread_time()
            writer.add_scalar("loss", number, step)
            spent.append((time.thread_time() - begin) * 1e6)
        writer.close()
    cuts = statistics.quantiles(spent, n=100)
    print(f"add_scalar: median {statistics.median(spent):.1f} us, p90 {cuts[89]:.1f}, p99 {cuts[98]:.1f}")


main()
