"""`nanochat`: the weights of linear layers, and attention up to each layer's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terms import Convention, Term, Terms, by_part, main_stream, not_for, weight_terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def nanochat(shape: ModelShape, batch: Batch) -> Terms:
    """(6 linear weights + sum over layers of 12 H h min(T, window)) * B T.

    Counts the LM head tied or not, and padding. Leaves out convolutions, norms, biases, tables and the causal half; a
    window counts in full from the first position on.
    Distance: torchtitan - nanochat = 6 (norms and biases) per token on an untied dense decoder without windows.
    Source: karpathy/nanochat 92d63d4e (2026-07-03), `nanochat/gpt.py` estimate_flops and num_matmul_params.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    positions = main_stream(shape).positions(batch)
    linears = tuple(m for m in shape.main_matmuls if m.part not in ("conv", "patch") and m.role != "ssm.conv")
    terms = weight_terms(by_part(linears), positions)
    for core in shape.cores:
        keys = core.keys.padded(batch)
        seen = keys if core.window is None else min(keys, core.window)
        width = (core.qk_width + core.v_width) * core.count
        name = "attention core" if core.window is None else f"attention core, window {core.window}"
        text = f"6 * {positions} positions * {width} qk and v width of {core.count} layers * {seen} keys"
        terms.append(Term(name, text, 6 * positions * width * seen))
    return terms


CONVENTION = Convention(
    "nanochat",
    "6 * weights of linear layers + the attention up to each window",
    "karpathy/nanochat 92d63d4e (2026-07-03), nanochat/gpt.py estimate_flops",
    nanochat,
)
