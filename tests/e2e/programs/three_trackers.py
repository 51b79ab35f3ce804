"""A plain loop that logs each step to TensorBoard, W&B and MLflow; nothing here knows of trainmeter."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

import mlflow
import wandb

torch.set_num_threads(1)
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, input_ids):
        return self.head(self.embedding(input_ids))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = wandb.init(project="project")
with mlflow.start_run(), SummaryWriter(sys.argv[1]) as writer:
    for step, batch in enumerate(DataLoader(torch.randint(50, (48, 32)), batch_size=4)):
        loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss.item(), step)
        run.log({"train/loss": loss.item()}, step=step)
        mlflow.log_metric("train/loss", loss.item(), step=step)
