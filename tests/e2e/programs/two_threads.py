"""Two trainings at once, on two threads of one process, the second from when the first has made a step"""

import threading

import torch
from tiny import GPT, config, digest, tokens

torch.manual_seed(0)
models = [GPT(config(dropout=0.0)) for _ in range(2)]
data = [tokens(4, 17), tokens(6, 17)]
losses: list[list[str]] = [[], []]
begun = threading.Event()


def train(which: int, steps: int) -> None:
    model, batch = models[which], data[which]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        _, loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[which].append(loss.item().hex())
        begun.set()


first = threading.Thread(target=train, args=(0, 60))
first.start()
begun.wait()
second = threading.Thread(target=train, args=(1, 40))
second.start()
first.join()
second.join()
for of_one in losses:
    print(*of_one, sep="\n")
print(digest(torch.nn.ModuleList(models)))
