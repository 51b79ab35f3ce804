"""Train a tiny GPT on the text of Python's own help pages, for about a minute on a laptop's CPU.

An ordinary training script: PyTorch, a DataLoader, a TensorBoard writer. It knows nothing of trainmeter.

    tm --peak-tflops 0.2 examples/train_gpt.py --steps 300
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter


@dataclass
class GPTConfig:
    vocab_size: int
    block_size: int = 128
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.mlp_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


class Characters(Dataset):
    """Windows of block_size characters, each with the same window one character later."""

    def __init__(self, ids, block_size):
        self.ids, self.block_size = ids, block_size

    def __len__(self):
        return len(self.ids) - self.block_size

    def __getitem__(self, start):
        window = self.ids[start : start + self.block_size + 1]
        return window[:-1], window[1:]


@torch.no_grad()
def evaluate(model, loader, batches):
    model.eval()
    losses = [model(x, y).item() for (x, y), _ in zip(loader, range(batches), strict=False)]
    model.train()
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--eval-every", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/train_gpt"))
    args = parser.parse_args()

    torch.manual_seed(1337)
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    ids = torch.tensor([characters.index(c) for c in text])
    config = GPTConfig(vocab_size=len(characters))
    split = int(0.9 * len(ids))
    train = DataLoader(Characters(ids[:split], config.block_size), batch_size=args.batch_size, shuffle=True)
    held_out = DataLoader(Characters(ids[split:], config.block_size), batch_size=args.batch_size, shuffle=True)

    model = GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    args.out.mkdir(parents=True, exist_ok=True)
    writer = SummaryWriter(str(args.out))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(ids):,} characters")

    for step, (x, y) in zip(range(1, args.steps + 1), train, strict=False):
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss/train", loss.item(), step)
        if step % args.eval_every == 0:
            held_out_loss = evaluate(model, held_out, batches=10)
            writer.add_scalar("loss/val", held_out_loss, step)
            torch.save({"model": model.state_dict(), "step": step}, args.out / "checkpoint.pt")
            print(f"step {step}: loss {loss.item():.3f}, held out {held_out_loss:.3f}")
    writer.close()


if __name__ == "__main__":
    main()
