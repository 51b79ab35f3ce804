"""A loop through Lightning Fabric: set-up model, optimizer and loader, accumulation by its context, a save."""

import os
import sys

import torch
from lightning.fabric import Fabric
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
fabric.seed_everything(0, verbose=False)
model = GPT(config())
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(tokens(32, 17)), batch_size=4, shuffle=True))
for epoch in range(2):
    model.train()
    for at, (batch,) in enumerate(loader):
        accumulating = at % 2 == 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            loss = model(batch[:, :-1], batch[:, 1:])[1]
            fabric.backward(loss / 2)
        if not accumulating:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, loss.item().hex())
    model.eval()
    with torch.no_grad():
        print(model(*tokens(2, 16).split(16, 1))[0].sum().item().hex())
os.makedirs(sys.argv[1], exist_ok=True)
fabric.save(os.path.join(sys.argv[1], "state.ckpt"), {"model": model, "optimizer": optimizer})
print(digest(model))
