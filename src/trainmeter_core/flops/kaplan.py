"""`kaplan`: C = 6 N of the scaling-laws paper, N the weights of the layers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terms import Convention, Terms, by_part, main_stream, not_for, weight_terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def kaplan(shape: ModelShape, batch: Batch) -> Terms:
    """6 N B T with N = 2 d L (2 d_attn + d_ff) for a dense ungated decoder: matmul weights but the head.

    Leaves out head, tables, norms, biases and the attention core.
    Distance: nanochat - kaplan = 6 V d + 12 L H h T per token without windows.
    Source: Kaplan et al. 2020, arXiv 2001.08361, section 2.1; gates, grouped heads and active experts as they are.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    layers = tuple(m for m in shape.main_matmuls if m.part != "head")
    return weight_terms(by_part(layers), main_stream(shape).positions(batch))


CONVENTION = Convention(
    "kaplan",
    "6 * matmul weights of the layers; no head, no attention core",
    "arXiv 2001.08361 section 2.1",
    kaplan,
)
