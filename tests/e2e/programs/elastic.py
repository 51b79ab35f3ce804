"""Data-parallel training that torchrun starts again: one rank dies once, and all go on from the last checkpoint."""

import os
import sys

import torch
import torch.distributed as dist
from tiny import GPT, config, digest, tokens
from torch.nn.parallel import DistributedDataParallel

checkpoint = os.path.join(sys.argv[1], "checkpoint.pt")
os.makedirs(sys.argv[1], exist_ok=True)
rank, attempt = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
# A store of each attempt's own: gloo may find the addresses of the last one in torchrun's.
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store-{attempt}", rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(GPT(config(dropout=0.0)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
start = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
for step in range(start, 10):
    batch = tokens(4, 17, seed=1000 * rank + step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(step, loss.item().hex(), flush=True)
        if step == 3:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, checkpoint)
    dist.barrier()
    if step == 5 and rank == 1 and attempt == "0":
        os._exit(9)
if rank == 0:
    print(digest(model.module), flush=True)
dist.destroy_process_group()
