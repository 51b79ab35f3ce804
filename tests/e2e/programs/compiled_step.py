"""The whole step in one compiled function: forward, backward and the optimizer."""

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
model = GPT(config(dropout=0.0))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def train_step(x, y):
    loss = model(x, y)[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


for step in range(10):
    batch = tokens(4, 17, seed=step)
    print(step, train_step(batch[:, :-1].contiguous(), batch[:, 1:].contiguous()).item().hex())
print(digest(model))
