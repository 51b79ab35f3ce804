"""A loop through accelerate: prepared model, optimizer, loader and schedule, accumulation by its context."""

import torch
from accelerate import Accelerator
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
loader = DataLoader(TensorDataset(tokens(32, 17)), batch_size=4, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for _ in range(3):
    for (batch,) in loader:
        with accelerator.accumulate(model):
            loss = model(batch[:, :-1], batch[:, 1:])[1]
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(loss.item().hex())
print(digest(accelerator.unwrap_model(model)))
