"""A frozen heap and a module older than torch keep the model and its optimizer until after every other module was taken apart."""

import gc
import json
import sys

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters())
gc.disable()
for step in range(3):
    batch = tokens(2, 17, seed=step)
    model(batch[:, :-1], batch[:, 1:])[1].backward()
    optimizer.step()
    optimizer.zero_grad()
print(digest(model))
json.kept = model, optimizer
sys.kept = json.loads.__globals__
gc.freeze()
