"""A tiny language model that trains on the CPU and says it lies on a GPU: for machines with a fake driver.

Its parameters answer "cuda:0" when asked for their device; torch's own kernels look past that and compute on the CPU.
"""

import argparse
import time
import types
from dataclasses import dataclass
from itertools import chain, repeat

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=4.0)
parser.add_argument("--dtype", default="bfloat16")
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--uuid", help="what torch says of the GPU")
parser.add_argument("--hang", type=float, default=0.0, help="seconds without a step, before the end")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
V, T, D = 64, 16, 32


class OnGpu(nn.Parameter):
    device = property(lambda _: torch.device(args.device))


@dataclass
class Config:
    vocab_size: int = V
    block_size: int = T
    n_layer: int = 1
    n_head: int = 2
    n_embd: int = D


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (2, D // 2)).transpose(1, 2) for part in self.c_attn(x).split(D, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.c_proj(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.wte = nn.Embedding(V, D)
        self.h = nn.ModuleList([Block()])
        self.lm_head = nn.Linear(D, V, bias=False)

    def forward(self, ids):
        return self.lm_head(self.h[0](self.wte(ids)))


model = Model().to(getattr(torch, args.dtype))
if args.device != "cpu":
    for parameter in model.parameters():
        parameter.__class__ = OnGpu
if args.uuid:
    torch.cuda.get_device_properties = lambda _: types.SimpleNamespace(uuid=args.uuid)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
loader = DataLoader(torch.randint(V, (64, T)), batch_size=4)
end = time.monotonic() + args.seconds
for ids in chain.from_iterable(repeat(loader)):
    if time.monotonic() > end:
        break
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
if args.hang:
    model(ids)
    time.sleep(args.hang)
