"""Gradient accumulation over micro-batches of which the last of each step is smaller and shorter."""

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
shapes = [(4, 17), (4, 17), (4, 17), (2, 9)]
for step in range(9):
    for micro, (rows, length) in enumerate(shapes):
        batch = tokens(rows, length, seed=100 * step + micro)
        loss = model(batch[:, :-1], batch[:, 1:])[1] / len(shapes)
        loss.backward()
        print(step, micro, loss.item().hex())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print(digest(model))
