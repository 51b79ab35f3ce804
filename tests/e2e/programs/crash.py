"""Ends in an exception after five steps."""

import torch
from tiny import GPT, config, tokens

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    batch = tokens(4, 17, seed=step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex(), flush=True)
    if step == 4:
        model(torch.full((1, 4), 10**6))
