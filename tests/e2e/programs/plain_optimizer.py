"""An optimizer that is a plain class, not one of torch.optim, beside a schedule of its own."""

import torch
from tiny import GPT, config, digest, tokens


class Momentum:
    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr
        self.velocity = {p: torch.zeros_like(p) for p in self.parameters}

    @torch.no_grad()
    def step(self):
        for parameter, velocity in self.velocity.items():
            velocity.mul_(0.9).add_(parameter.grad)
            parameter.sub_(velocity, alpha=self.lr)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


torch.manual_seed(0)
model = GPT(config())
optimizer = Momentum(model.parameters(), lr=0.01)
for step in range(8):
    batch = tokens(4, 17, seed=step)
    optimizer.zero_grad()
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
print(digest(model))
