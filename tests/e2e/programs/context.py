"""Context parallelism on gloo, beside data parallelism where there are four ranks: two ranks share each sequence."""

import torch
import torch.distributed as dist
from tiny import VOCAB, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.up, self.head = nn.Embedding(VOCAB, 16), nn.Linear(16, 16), nn.Linear(16, VOCAB)

    def forward(self, ids):
        return self.head(torch.relu(self.up(self.embed(ids))))


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp_shard", "cp"))
place, data_rank = mesh["cp"].get_local_rank(), mesh["dp_shard"].get_local_rank()
torch.manual_seed(0)
model = DistributedDataParallel(Language())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(8):
    batch = tokens(4, 17, seed=1000 * data_rank + step)
    inputs, targets = (part.chunk(2, dim=1)[place] for part in (batch[:, :-1], batch[:, 1:]))
    loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(step, loss.item().hex(), flush=True)
dist.destroy_process_group()
