"""The small GPT that gpu_check.py trains bare and under tm: prints its times and a hash of its weights.

Deterministic, so that two runs end in the same bits; an ordinary program that knows nothing of trainmeter.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass
class GPTConfig:
    """Sizes of the model."""

    vocab_size: int
    block_size: int
    n_layer: int
    n_head: int
    n_embd: int


class Block(nn.Module):
    """Attention and MLP."""

    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.n_head = c.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.c_attn, self.c_proj = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.c_fc, self.mlp_proj = nn.Linear(c.n_embd, 4 * c.n_embd), nn.Linear(4 * c.n_embd, c.n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) to (B, T, C)."""
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    """A decoder with learned positions."""

    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.config = c
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.n_embd), nn.Embedding(c.block_size, c.n_embd)
        self.h = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.ln_f = nn.LayerNorm(c.n_embd)
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1).float(), targets.flatten())


def main() -> None:
    """Train, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--profile", action="store_true", help="count the calls that wait for the device")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    config = GPTConfig(8192, args.length, args.layers, max(1, args.width // 64), args.width)
    model = GPT(config).to(args.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randint(config.vocab_size, (args.batch, args.length + 1), device=args.device)
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    profiler = torch.profiler.profile() if args.profile else None
    times: list[float] = []
    with sdpa_kernel(SDPBackend.MATH if args.device == "cpu" else SDPBackend.FLASH_ATTENTION):
        for step in range(args.steps):
            if profiler is not None and step == args.steps - 5:
                wait()
                profiler.start()
            start = time.perf_counter()
            model(data[:, :-1], data[:, 1:]).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 9 and profiler is None:
                wait()
            times.append(time.perf_counter() - start)
    waits: dict[str, int] = {}
    if profiler is not None:
        profiler.stop()
        waits = {e.key: e.count for e in profiler.key_averages() if "Synchronize" in e.key}
    blocks = [sum(times[at : at + 10]) / 10 for at in range(10, len(times) - 9, 10)]
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    told = {"step_s": statistics.median(blocks or times[1:]), "weights": digest.hexdigest(), "waits": waits}
    told["counted_flops_per_token"] = _counted(model, data) / data[:, :-1].numel()
    print("result " + json.dumps(told))


def _counted(model: GPT, data: torch.Tensor) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        model(data[:, :-1], data[:, 1:]).backward()
    return int(counter.get_total_flops())


if __name__ == "__main__":
    main()
