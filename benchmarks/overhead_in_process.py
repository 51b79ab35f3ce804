"""Microseconds that the agent adds to an optimizer step: one process, the taps taken out and put back block by block.

    tm --quiet benchmarks/overhead_in_process.py [STEPS WIDTH LAYERS MICRO_BATCHES]

Two processes differ by more than what is measured here: by where their memory lies. In one process the same step runs
with and without the taps in turns of a few steps, so that what else the machine does falls on both alike. Each figure
is the median over the turns of (mean step with - mean step without), wall clock and processor time of the thread; the
error is what the same figure shows between turns without taps.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from overhead_model import LENGTH, VOCAB, Gpt
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loaders

TURN, DROPPED = 12, 2
words = [int(word) for word in sys.argv[1:5]]
steps, width, layers, micro_batches = words + [24000, 16, 1, 1][len(words) :]
torch.manual_seed(0)
torch.set_num_threads(1)


class Taps:
    """What `tm` put into this process, to be taken out and put back without the agent's knowing."""

    def __init__(self, model: nn.Module) -> None:
        names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
        self.hooks = [(table, dict(table)) for table in (getattr(optimizers, name) for name in names)]
        self.places = []
        for owner, name in (
            (torch.autograd, "_engine_run_backward"),
            (torch.autograd.graph, "_engine_run_backward"),
            *((kind, "__next__") for kind in vars(loaders).values() if isinstance(kind, type)),
            (type(model), "__call__"),
        ):
            tap = vars(owner).get(name)
            if tap is not None and name == "__call__":
                self.places.append((owner, name, tap, None))
            elif tap is not None and hasattr(tap, "__wrapped__"):
                self.places.append((owner, name, tap, tap.__wrapped__))
        if len(self.places) < 3 or not self.hooks[0][1]:
            sys.exit("the taps are not there: run this by tm")

    def switch(self, on: bool) -> None:
        for table, content in self.hooks:
            table.clear()
            if on:
                table.update(content)
        for owner, name, tap, original in self.places:
            if on or original is not None:
                setattr(owner, name, tap if on else original)
            else:
                delattr(owner, name)


def main() -> None:
    model = Gpt(width, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, VOCAB, ((steps + 200) * micro_batches, LENGTH + 1))
    batches = iter(DataLoader(TensorDataset(data), batch_size=1))

    def step() -> None:
        for _ in range(micro_batches):
            (batch,) = next(batches)
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(200):
        step()
    taps = Taps(model)
    wall: dict[bool, list[float]] = {True: [], False: []}
    cpu: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(steps // TURN):
        on = turn % 2 == 0
        taps.switch(on)
        for _ in range(DROPPED):
            step()
        start, spent = time.perf_counter(), time.thread_time()
        for _ in range(TURN - DROPPED):
            step()
        cpu[on].append((time.thread_time() - spent) * 1e6 / (TURN - DROPPED))
        wall[on].append((time.perf_counter() - start) * 1e6 / (TURN - DROPPED))
    taps.switch(on=True)
    for name, times in (("wall clock", wall), ("processor", cpu)):
        added = [on - off for on, off in zip(times[True], times[False], strict=False)]
        fifth = [statistics.quantiles(times[on], n=20)[0] for on in (True, False)]
        print(
            f"{name:<11} step {statistics.median(times[False]):8.1f} us, tm adds {statistics.median(added):+6.1f} us"
            f" (5th percentile {fifth[0] - fifth[1]:+.1f},"
            f" standard error {statistics.stdev(added) / len(added) ** 0.5:.1f})"
        )


main()
