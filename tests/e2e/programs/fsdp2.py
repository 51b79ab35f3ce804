"""Sharded training with fully_shard on gloo: every rank holds a part of each parameter."""

import torch
import torch.distributed as dist
from tiny import GPT, config, tokens
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = GPT(config())
for block in model.transformer["h"]:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(6):
    batch = tokens(4, 17, seed=1000 * rank + step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(step, loss.item().hex(), flush=True)
if rank == 0:
    print(torch.rand(1).item().hex(), flush=True)
dist.destroy_process_group()
