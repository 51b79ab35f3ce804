"""Pipeline parallelism on gloo, beside data parallelism where there are four ranks: two stages, four micro-batches."""

import torch
import torch.distributed as dist
from tiny import VOCAB, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

torch.set_num_threads(1)


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.up = nn.Embedding(VOCAB, 16), nn.Linear(16, 16)

    def forward(self, ids):
        return torch.relu(self.up(self.embed(ids)))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.head = nn.Linear(16, 16), nn.Linear(16, VOCAB)

    def forward(self, hidden):
        return self.head(self.down(hidden))


dist.init_process_group("gloo")
world, rank = dist.get_world_size(), dist.get_rank()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "pp"))
place, data_rank = mesh["pp"].get_local_rank(), mesh["dp"].get_local_rank()
torch.manual_seed(place)
part = Last() if place else First()
stage = PipelineStage(part, place, 2, torch.device("cpu"), group=mesh["pp"].get_group())
schedule = ScheduleGPipe(
    stage, 4, loss_fn=lambda logits, target: nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
)
optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
for step in range(8):
    batch = tokens(8, 17, seed=1000 * data_rank + step)
    losses = []
    if place:
        schedule.step(target=batch[:, 1:].contiguous(), losses=losses)
    else:
        schedule.step(batch[:, :-1].contiguous())
    for parameter in part.parameters():
        dist.all_reduce(parameter.grad, group=mesh["dp"].get_group())
    optimizer.step()
    optimizer.zero_grad()
    if rank == 1:
        print(step, sum(losses).item().hex(), flush=True)
dist.destroy_process_group()
