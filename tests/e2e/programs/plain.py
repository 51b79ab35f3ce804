"""A loop with a DataLoader, an evaluation every few steps, a checkpoint at the end, and no tracker."""

import os
import sys
import tempfile

import torch
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(tokens(44, 17)), batch_size=4, shuffle=True)  # 11 batches
held_out = tokens(6, 17, seed=1)

step = 0
for epoch in range(2):
    for (batch,) in loader:
        optimizer.zero_grad()
        _, loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        step += 1
        print(epoch, step, loss.item().hex())
    model.eval()
    with torch.no_grad():
        print("held out", model(held_out[:, :-1], held_out[:, 1:])[1].item().hex())
    model.train()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt")
    torch.save({"model": model.state_dict(), "filler": torch.zeros(4 << 20)}, path)
    print("saved", sorted(torch.load(path)["model"]) == sorted(model.state_dict()))
print(digest(model))
print("argv", sys.argv[1:], file=sys.stderr)
