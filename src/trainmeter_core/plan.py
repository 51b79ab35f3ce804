"""What a run needs before it is started: time, GPU-hours and memory; pure functions of counts."""

from __future__ import annotations

import math
from typing import NamedTuple

TOKENS_PER_PARAMETER = 20
"""Compute-optimal tokens per parameter, rounded. Source: Hoffmann et al. 2022, arXiv 2203.15556, table 3."""


class TypicalMfu(NamedTuple):
    """MFU of one published run, in percent, and where it is told."""

    run: str
    percent: float
    source: str


TYPICAL_MFU = (
    TypicalMfu("GPT-3 175B, V100", 21.3, "Chowdhery et al. 2022, arXiv 2204.02311, table 3"),
    TypicalMfu("Gopher 280B, 4096 TPU v3", 32.5, "Chowdhery et al. 2022, arXiv 2204.02311, table 3"),
    TypicalMfu("MT-NLG 530B, 2240 A100", 30.2, "Chowdhery et al. 2022, arXiv 2204.02311, table 3"),
    TypicalMfu("PaLM 540B, 6144 TPU v4", 46.2, "Chowdhery et al. 2022, arXiv 2204.02311, table 3"),
    TypicalMfu("Llama 3 405B, 8192 H100, 8192 tokens", 43.0, "Llama Team 2024, arXiv 2407.21783, table 4"),
    TypicalMfu("Llama 3 405B, 16384 H100, 8192 tokens", 41.0, "Llama Team 2024, arXiv 2407.21783, table 4"),
    TypicalMfu("Llama 3 405B, 16384 H100, 131072 tokens", 38.0, "Llama Team 2024, arXiv 2407.21783, table 4"),
)
DEFAULT_MFU = 40.0
"""Percent; between the lowest and the highest of the runs above on devices with fast links since 2022."""


def seconds_for(flops: float, devices: int, peak_flops_per_s: float, mfu_pct: float) -> float:
    """Wall seconds of `flops` model FLOPs. MFU = FLOPs / (seconds * devices * peak), solved for the seconds."""
    return flops / (devices * peak_flops_per_s * mfu_pct / 100)


def flops_in(seconds: float, devices: int, peak_flops_per_s: float, mfu_pct: float) -> float:
    """Model FLOPs that fit in `seconds`."""
    return seconds * devices * peak_flops_per_s * mfu_pct / 100


def optimal_parameters(flops: float) -> float:
    """Parameters of the compute-optimal model for a budget: C = 6 N D with D = 20 N.

    Source: Hoffmann et al. 2022, arXiv 2203.15556, section 3 and table 3; attention is left out.
    """
    return math.sqrt(flops / (6 * TOKENS_PER_PARAMETER))


class Memory(NamedTuple):
    """Bytes on one device: model states by kind, and activations of one micro-batch by what is recomputed.

    activations: `none` keeps everything, `selective` recomputes the attention cores (or a flash kernel does), `full`
    keeps the input of each layer. None for a model that is no stack of transformer layers.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: dict[str, float] | None

    @property
    def states(self) -> float:
        return self.weights + self.gradients + self.optimizer


def model_states(parameters: int, trainable: int, shards: int) -> tuple[float, float, float]:
    """Bytes per device of weights, gradients and optimizer states, all of them split over `shards` devices.

    Mixed precision with Adam: 2 bytes per weight, 2 per gradient, and 12 per trainable parameter of the optimizer (a
    32-bit weight, momentum and variance). `shards` is 1 for plain data parallelism.
    Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1.
    """
    return 2 * parameters / shards, 2 * trainable / shards, 12 * trainable / shards


def activation_bytes(sequences: int, seq_len: int, width: int, heads: int | None, layers: int) -> dict[str, float]:
    """Bytes of one micro-batch's activations on one device, 16-bit, without tensor or sequence parallelism.

    Per layer s b h (34 + 5 a s / h) with everything kept, 34 s b h without the attention cores, 2 s b h with full
    recomputation, which also needs one layer's 34 s b h while that is recomputed. The formula is of a block with an
    MLP of four times the width and two matrices; of others it is an estimate. The logits are left out.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, equations 1, 2 and table 2.
    """
    sbh = float(seq_len * sequences * width)
    found = {"selective": 34 * sbh * layers, "full": 2 * sbh * layers + 34 * sbh}
    if heads is None:
        return found
    return {"none": sbh * (34 + 5 * heads * seq_len / width) * layers, **found}
