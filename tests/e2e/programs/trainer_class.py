"""A Trainer class in the minGPT manner: callbacks, an endless iterator over the loader, evaluation in a callback."""

import os
import tempfile
import time
from collections import defaultdict

import torch
from tiny import GPT, config, digest, tokens
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader


class Sorted(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        return row[:-1], row[1:]


class Trainer:
    def __init__(self, settings, model, train_dataset):
        self.settings, self.model, self.train_dataset = settings, model, train_dataset
        self.callbacks = defaultdict(list)
        self.iter_num, self.iter_time, self.iter_dt = 0, 0.0, 0.0

    def set_callback(self, onevent, callback):
        self.callbacks[onevent] = [callback]

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model, settings = self.model, self.settings
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=settings["learning_rate"])
        loader = DataLoader(
            self.train_dataset,
            sampler=torch.utils.data.RandomSampler(self.train_dataset, replacement=True, num_samples=int(1e10)),
            shuffle=False,
            pin_memory=False,
            batch_size=settings["batch_size"],
            num_workers=0,
        )
        model.train()
        self.iter_time = time.time()
        data_iter = iter(loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            x, y = batch
            _, self.loss = model(x, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.optimizer.step()
            self.trigger_callbacks("on_batch_end")
            self.iter_num += 1
            now = time.time()
            self.iter_dt, self.iter_time = now - self.iter_time, now
            if self.iter_num >= settings["max_iters"]:
                break


def on_batch_end(trainer):
    print(trainer.iter_num, trainer.loss.item().hex())
    if trainer.iter_num % 10 == 9:
        trainer.model.eval()
        with torch.no_grad():
            for start in range(0, 8, 4):
                rows = held_out[start : start + 4]
                print("eval", trainer.model(rows[:, :-1], rows[:, 1:])[1].item().hex())
        with tempfile.TemporaryDirectory() as folder:
            torch.save(trainer.model.state_dict(), os.path.join(folder, "model.pt"))
        trainer.model.train()


torch.manual_seed(0)
held_out = tokens(8, 17, seed=2)
model = GPT(config())
trainer = Trainer({"learning_rate": 5e-4, "batch_size": 8, "max_iters": 30}, model, Sorted(tokens(64, 17)))
trainer.set_callback("on_batch_end", on_batch_end)
trainer.run()
print(digest(model))
