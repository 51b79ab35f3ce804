"""The example's GPT for the pictures, logging to W&B or MLflow; its parameters say that they lie on a GPU.

Run by screenshots_trackers.py, which brings the example's folder. The tests' stand-in for NVIDIA's driver then answers
for the counters; the training itself runs on the CPU.
"""

from __future__ import annotations

import argparse
import os
import time
from pydoc_data.topics import topics

import torch
from torch.utils.data import DataLoader
from train_gpt import GPT, Characters, GPTConfig, evaluate


class OnGpu(torch.nn.Parameter):
    """A parameter that answers "cuda:0" when it is asked for its device."""

    device = property(lambda _: torch.device("cuda:0"))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("tracker", choices=("wandb", "mlflow"))
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--eval-every", type=int, default=30)
parser.add_argument("--seconds", type=float, default=40.0)
parser.add_argument("--name", default="batch-16")
args = parser.parse_args()

torch.manual_seed(1337)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
text = "\n".join(topics[name] for name in sorted(topics))
characters = sorted(set(text))
ids = torch.tensor([characters.index(c) for c in text])
config = GPTConfig(vocab_size=len(characters))
loader = DataLoader(Characters(ids, config.block_size), batch_size=args.batch_size, shuffle=True)
model = GPT(config)
for parameter in model.parameters():
    parameter.__class__ = OnGpu
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)

if args.tracker == "wandb":
    import wandb

    run = wandb.init(project="pictures", name=args.name, mode="offline", config={"batch_size": args.batch_size})
    log = run.log
else:
    import mlflow

    mlflow.set_experiment("train_gpt")
    mlflow.start_run(run_name=args.name)
    mlflow.log_param("batch_size", args.batch_size)
    log = mlflow.log_metrics

end = time.monotonic() + args.seconds
for step, (x, y) in enumerate(loader, 1):
    loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    log({"loss/train": loss.item()}, step=step)
    if step % args.eval_every == 0:
        log({"loss/val": evaluate(model, loader, batches=6)}, step=step)
    if time.monotonic() > end:
        break
if args.tracker == "wandb":
    run.finish()
else:
    mlflow.end_run()
