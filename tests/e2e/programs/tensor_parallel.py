"""Tensor parallelism on gloo: both ranks hold parts of each layer and are given the same batches."""

import sys

import torch
import torch.distributed as dist
from tiny import VOCAB, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.set_num_threads(1)


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.first, self.second = Feed(), Feed()
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids):
        return self.head(self.second(self.first(self.embed(ids))))


dist.init_process_group("gloo")
world, rank = dist.get_world_size(), dist.get_rank()
torch.manual_seed(0)
model = Language()
data_rank = 0
if "mesh" in sys.argv:
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    tensor, data_rank = mesh["tp"], mesh["dp"].get_local_rank()
else:
    tensor = init_device_mesh("cpu", (world,))
for feed in (model.first, model.second):
    parallelize_module(feed, tensor, {"up": ColwiseParallel(), "down": RowwiseParallel()})
if "mesh" in sys.argv:
    fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for step in range(8):
    batch = tokens(4, 17, seed=1000 * data_rank + step)
    loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(step, loss.item().hex(), flush=True)
dist.destroy_process_group()
