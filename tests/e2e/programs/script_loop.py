"""A training script in the nanoGPT manner: globals, get_batch, accumulation, estimate_loss, resume file, torch.compile."""

import math
import os
import tempfile
from contextlib import nullcontext

import torch
from tiny import GPT, VOCAB, config, digest

out_dir = tempfile.mkdtemp()
eval_interval, eval_iters, max_iters = 8, 3, 20
gradient_accumulation_steps, batch_size, block_size = 3, 4, 16
learning_rate, warmup_iters, min_lr, grad_clip = 1e-3, 4, 1e-4, 1.0
compile = os.environ.get("COMPILE") == "1"  # noqa: A001  as such scripts have it
torch.manual_seed(1337)
ctx = nullcontext()
data = {split: torch.randint(0, VOCAB, (1000,)) for split in ("train", "val")}


def get_batch(split):
    ix = torch.randint(len(data[split]) - block_size, (batch_size,))
    x = torch.stack([data[split][i : i + block_size] for i in ix])
    y = torch.stack([data[split][i + 1 : i + 1 + block_size] for i in ix])
    return x, y


model = GPT(config(dropout=0.0))
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
if compile:
    unoptimized_model = model
    model = torch.compile(model, backend="aot_eager")


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            with ctx:
                _, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


X, Y = get_batch("train")
iter_num = 0
best_val_loss = 1e9
raw_model = model
while True:
    for param_group in optimizer.param_groups:
        param_group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.6f}, val loss {losses['val']:.6f}")
        if losses["val"] < best_val_loss:
            best_val_loss = losses["val"]
            if iter_num > 0:
                checkpoint = {
                    "model": raw_model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "iter_num": iter_num,
                }
                torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    for _ in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {iter_num}: loss {(loss.item() * gradient_accumulation_steps).hex()}")
    iter_num += 1
    if iter_num >= max_iters:
        break
print(digest(model._orig_mod if compile else model))
