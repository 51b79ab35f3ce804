"""Models without a config, of the kinds that a first look has to read: nets of convolutions, attention of many forms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name
from torch import nn

B, T, D, HEADS, V = 2, 12, 16, 2, 30


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet(nn.Module):
    """The layout of ResNet-18, in small."""

    def __init__(self, width=4):
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        stages = [(1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2), (8, 8, 1)]
        self.layers = nn.Sequential(*(Residual(width * i, width * o, stride) for i, o, stride in stages))
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layers(x).mean((2, 3)))


class UNet(nn.Module):
    """One step down and one up again by a transposed convolution; its first convolution is registered last."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = nn.Conv2d(8, 2, 1)
        self.down = nn.Conv2d(4, 8, 3, 2, 1)
        self.stem = nn.Conv2d(3, 4, 3, 1, 1)

    def forward(self, x):
        whole = F.relu(self.stem(x))
        return self.out(torch.cat([whole, self.up(F.relu(self.down(whole)))], 1))


def audio():
    layers = [nn.Conv1d(1, 8, 10, 5), nn.GELU(), nn.Conv1d(8, 8, 3, 2), nn.GELU()]
    normed = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 6, 3, dilation=2, bias=False))
    return nn.Sequential(*layers, normed, nn.ConvTranspose1d(6, 1, 4, 2), nn.Flatten(), nn.LazyLinear(3))


def volume():
    return nn.Sequential(
        nn.Conv3d(1, 4, 3), nn.ReLU(), nn.Conv3d(4, 4, (1, 3, 3), padding=(0, 1, 1)), nn.Flatten(), nn.LazyLinear(2)
    )


class Attention(nn.Module):
    """Heads cut out of one product, as fused attention or written out."""

    def __init__(self, written_out=False, causal=False, mask=None, kv_heads=HEADS):
        super().__init__()
        self.to_q, self.to_kv = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * kv_heads * (D // HEADS), bias=False)
        self.proj, self.written_out, self.causal, self.mask = nn.Linear(D, D), written_out, causal, mask

    def forward(self, x):
        rows, length = x.shape[:2]
        q = self.to_q(x).view(rows, length, HEADS, -1).transpose(1, 2)
        k, v = (each.view(rows, length, HEADS, -1).transpose(1, 2) for each in self.to_kv(x).chunk(2, -1))
        if self.written_out:
            y = (q @ k.mT).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(rows, length, D))


class Mixed(nn.Module):
    """Convolutions around attention over the feature map, and a classifier: a small diffusion net."""

    def __init__(self):
        super().__init__()
        self.stem, self.attention, self.fc = nn.Conv2d(3, D, 4, 4), Attention(), nn.Linear(D, 5)

    def forward(self, x):
        x = self.stem(x).flatten(2).mT
        return self.fc((x + self.attention(x)).mean(1))


class Language(nn.Module):
    """A decoder as a lecture writes it: no config, every name its own."""

    def __init__(self, attention, vocabulary=V, tied_by_function=False):
        super().__init__()
        self.table = nn.Embedding(vocabulary, D)
        self.blocks = nn.ModuleList([attention, nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))])
        self.tied_by_function = tied_by_function
        if not tied_by_function:
            self.out = nn.Linear(D, vocabulary)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = x + block(x)
        return F.linear(x, self.table.weight) if self.tied_by_function else self.out(x)


class Head(nn.Module):
    """One head of the lecture's attention, with its mask as a buffer."""

    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(32, 32)))

    def forward(self, x):
        scores = (self.query(x) @ self.key(x).mT).masked_fill(self.tril[: x.shape[1], : x.shape[1]] == 0, float("-inf"))
        return scores.softmax(-1) @ self.value(x)


def image(*size):
    return torch.randn(B, 3, *size)


def tokens(length=T):
    return torch.randint(0, V, (B, length))


def hugging_face(name):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    small = {**sizes, "image_size": 16, "patch_size": 8}
    models = {
        "resnet": lambda t: t.ResNetForImageClassification(
            t.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic")
        ),
        "beit": lambda t: t.BeitForImageClassification(t.BeitConfig(**small)),
        "swin": lambda t: t.SwinForImageClassification(
            t.SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4)
        ),
    }
    return models[name](transformers)


class Labelled(nn.Module):
    """The loss of a Hugging Face classifier, by its own call."""

    def __init__(self, model):
        super().__init__()
        self.module = model

    def forward(self, pixels):
        return self.module(pixel_values=pixels, labels=torch.zeros(len(pixels), dtype=torch.long)).loss


class TwoHeads(nn.Module):
    """Its loss reads one of them."""

    def __init__(self):
        super().__init__()
        self.stem, self.kept, self.spare = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 4, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        x = self.stem(x)
        self.spare(x)
        return self.kept(x)


def mask(kind):
    ones = torch.ones(T, T, dtype=torch.bool)
    return {
        "lower triangle": ones.tril(),
        "lower triangle, with padding": torch.stack([ones.tril(), ones.tril() & (torch.arange(T) < 7)])[:, None],
        "added": torch.zeros(T, T).masked_fill(~ones.tril(), float("-inf")),
        "nothing": ones,
        "a band": ones.tril() & ones.triu(-3),
    }[kind]
