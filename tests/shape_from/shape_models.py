"""Small real models for the readers' tests: one in nanoGPT's style, one in Llama's, and a conv net."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 96
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.0
    bias: bool = False


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = LayerNorm(config.n_embd, config.bias)
        self.mlp = MLP(config)


class GPT(nn.Module):
    """The module tree of nanoGPT, with its tied head."""

    def __init__(self, config, tied=True):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                "ln_f": LayerNorm(config.n_embd, config.bias),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if tied:
            self.transformer.wte.weight = self.lm_head.weight


@dataclass
class LlamaArgs:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    vocab_size: int = 128
    multiple_of: int = 16
    ffn_dim_multiplier: float | None = None
    norm_eps: float = 1e-5
    max_seq_len: int = 32


class LlamaBlock(nn.Module):
    def __init__(self, args, hidden):
        super().__init__()
        head_dim = args.dim // args.n_heads
        self.attention = nn.ModuleDict(
            {
                "wq": nn.Linear(args.dim, args.n_heads * head_dim, bias=False),
                "wk": nn.Linear(args.dim, args.n_kv_heads * head_dim, bias=False),
                "wv": nn.Linear(args.dim, args.n_kv_heads * head_dim, bias=False),
                "wo": nn.Linear(args.n_heads * head_dim, args.dim, bias=False),
            }
        )
        self.feed_forward = nn.ModuleDict(
            {
                "w1": nn.Linear(args.dim, hidden, bias=False),
                "w2": nn.Linear(hidden, args.dim, bias=False),
                "w3": nn.Linear(args.dim, hidden, bias=False),
            }
        )
        self.attention_norm = nn.RMSNorm(args.dim)
        self.ffn_norm = nn.RMSNorm(args.dim)


class Llama(nn.Module):
    """The module tree of Llama's own reference implementation; without its args when `bare`."""

    def __init__(self, args, hidden=176, bare=False):
        super().__init__()
        if not bare:
            self.params = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList([LlamaBlock(args, hidden) for _ in range(args.n_layers)])
        self.norm = nn.RMSNorm(args.dim)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=4),
        nn.Flatten(),
        nn.LazyLinear(10),
    )
