"""Mixed precision with a gradient scaler that finds infinite gradients in three of twelve steps."""

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(12):
    batch = tokens(4, 17, seed=step)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(batch[:, :-1], batch[:, 1:])[1]
    scaler.scale(loss).backward()
    if step in (0, 4, 11):
        model.lm_head.weight.grad[0, 0] = float("inf")
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(step, loss.item().hex(), scaler.get_scale())
print(digest(model))
