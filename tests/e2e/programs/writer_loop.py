"""A loop that logs to a SummaryWriter of torch's own or of tensorboardX."""

import importlib
import sys
import time

import torch
from tiny import GPT, config, digest, tokens

package, logdir = sys.argv[1:3]
SummaryWriter = importlib.import_module(package).SummaryWriter
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writer = SummaryWriter(logdir)
for step in range(1, 31):
    batch = tokens(4, 17, seed=step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(pause)
    writer.add_scalar("train/loss", loss.item(), step)
    if step % 10 == 0:
        model.eval()
        with torch.no_grad():
            writer.add_scalar("val/loss", model(batch[:, :-1], batch[:, 1:])[1].item(), step)
        writer.add_histogram("head", model.lm_head.weight, step)
        model.train()
    print(step, loss.item().hex())
writer.close()
print(digest(model))
