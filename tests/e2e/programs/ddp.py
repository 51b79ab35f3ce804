"""Data-parallel training on gloo; with `unequal` each rank has a batch size of its own, with `slow` rank 1 idles."""

import sys
import time

import torch
import torch.distributed as dist
from tiny import GPT, config, digest, tokens
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(GPT(config()))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows = 4 + 3 * rank if "unequal" in sys.argv else 4
for step in range(12):
    if "slow" in sys.argv and rank == 1:
        time.sleep(0.2)
    batch = tokens(rows, 17, seed=1000 * rank + step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(step, loss.item().hex(), flush=True)
if rank == 0:
    print(digest(model.module), flush=True)
dist.destroy_process_group()
