"""One model, two optimizers for parts of it, stepped together; the schedule wraps one of them."""

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
model = GPT(config())
matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "wpe" not in name]
rest = [p for name, p in model.named_parameters() if not (p.ndim == 2 and "wpe" not in name)]
optimizers = [torch.optim.AdamW(rest, lr=1e-3), torch.optim.SGD(matrices, lr=1e-2, momentum=0.9)]
schedule = torch.optim.lr_scheduler.LinearLR(optimizers[1], total_iters=5)
for step in range(14):
    batch = tokens(4, 17, seed=step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    schedule.step()
    for optimizer in optimizers:
        optimizer.zero_grad()
    print(step, loss.item().hex())
print(digest(model))
