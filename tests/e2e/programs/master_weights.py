"""A bfloat16 model whose optimizer holds float32 copies of its weights, two micro-batches."""

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
torch.set_num_threads(1)
rows = tokens(64, 16)
model = GPT(config()).bfloat16()
masters = [parameter.detach().clone().float() for parameter in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-3)
for step in range(12):
    for _ in range(2):
        loss = model(rows[:4], rows[:4])[1]
        loss.backward()
    for master, parameter in zip(masters, model.parameters(), strict=True):
        master.grad, parameter.grad = parameter.grad.float(), None
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for master, parameter in zip(masters, model.parameters(), strict=True):
            parameter.copy_(master)
    print(step, loss.item())
print(digest(model))
