"""Cross-validation in one process: a new model and optimizer for each fold, the models before are kept."""

import torch
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data, kept = tokens(36, 17), []
for fold in range(3):
    model = GPT(config())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    chosen = [row for row in range(len(data)) if row % 3 != fold]
    for (batch,) in DataLoader(TensorDataset(data[chosen]), batch_size=4):
        _, loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(fold, loss.item().hex())
    kept.append(model)
print(digest(torch.nn.ModuleList(kept)))
