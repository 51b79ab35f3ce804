"""An optimizer that calls the model several times in one step."""

import torch
from tiny import digest
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
x = torch.randn(32, 5)
y = x.prod(1, keepdim=True)
calls = 0


def closure():
    global calls  # noqa: PLW0603  the shortest program
    calls += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(6):
    print(step, optimizer.step(closure).item().hex())
print("calls", calls)
print(digest(model))
