"""`megatron`: Megatron-LM's num_floating_point_operations since 2025-03-06, and `megatron_full` before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terms import Convention, Term, Terms, by_part, full_attention, main_stream, not_for, weight_terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape

UNCOUNTED = ("router", "patch", "conv")
# The norms that the original counts as one FMA per feature, in halves of a weight's inputs: MLA's latents are the
# inputs themselves, an MTP layer has three norms of d features and a projection of 2 d inputs.
HALF_FEATURES = {"attention.q_up": 2, "attention.kv_up": 2, "mtp.projection": 3}


def megatron(shape: ModelShape, batch: Batch) -> Terms:
    """6 S W + 6 Q2 L H h, with S the real tokens, Q2 the sum of squared document lengths and W the matmul weights.

    Counts the LM head (tied or not) at its padded width, the active and the shared experts, and attention at exactly
    half of Q2 whatever the mask. Leaves out the router, norms, biases, lookups, padding of packed batches, windows.
    A gate counts for every gated MLP; the original counts it for SwiGLU only. MLA's latent norms and an MTP layer's
    three norms count as one FMA per feature, as in the original.
    Distance: torchtitan - megatron = 6 L H h T + 6 (norms and biases) per token on a dense decoder.
    Source: NVIDIA/Megatron-LM d98e8a64 (2026-08-22), `megatron/training/training.py`; the half since 8873b55d6a.
    """
    absent = not_for(shape, vocabulary=True)
    if absent is not None:
        return absent
    stream = main_stream(shape)
    squares = sum(n * n for n in stream.lengths(batch))
    width = sum((core.qk_width + core.v_width) * core.count for core in shape.cores)
    terms = _weights(shape, stream.real(batch))
    terms.append(
        Term(
            "attention core",
            f"6 * {squares} squared lengths * {width} qk and v width of all layers / 2 for the causal mask",
            3 * squares * width,
        )
    )
    return terms


def megatron_full(shape: ModelShape, batch: Batch) -> Terms:
    """`megatron` with attention over all of T*T and padding counted, as it was until 2025-03-06.

    Distance: megatron_full - megatron = 6 L H h T per token of an unpacked batch.
    Source: NVIDIA/Megatron-LM 1468ab01c0 (2024-12-21), `megatron/training/training.py`.
    """
    absent = not_for(shape, vocabulary=True)
    if absent is not None:
        return absent
    return [*_weights(shape, main_stream(shape).positions(batch)), full_attention(shape, batch)]


def _weights(shape: ModelShape, positions: int) -> list[Term]:
    sums = by_part(tuple(m for m in shape.main_matmuls if m.part not in UNCOUNTED and m.role != "ssm.conv"))
    if shape.padded_vocabulary:
        heads = [m for m in shape.main_matmuls if m.part == "head"]
        sums["head"] = sum(m.inputs * m.count * shape.padded_vocabulary for m in heads)
    terms = weight_terms(sums, positions)
    norms = sum(HALF_FEATURES.get(m.role, 0) * m.inputs * m.count for m in shape.main_matmuls) // 2
    if norms:
        formula = f"6 * {positions} positions * {norms} features of latent and MTP norms"
        terms.append(Term("norms that the original counts", formula, 6 * positions * norms))
    for scan in shape.scans:
        formula = f"3 * {positions} positions * {scan.flops} FLOPs ({scan.formula}) * {scan.count} layers"
        terms.append(Term(scan.role, formula, 3 * positions * scan.flops * scan.count))
    return terms


CONVENTION = Convention(
    "megatron",
    "6 * matmul weights with the head + half of the attention; exact packed lengths",
    "NVIDIA/Megatron-LM d98e8a64 (2026-08-22), megatron/training/training.py num_floating_point_operations",
    megatron,
)
CONVENTION_FULL = Convention(
    "megatron_full",
    "megatron with all of the attention, as before 2025-03-06",
    "NVIDIA/Megatron-LM 1468ab01c0 (2024-12-21), megatron/training/training.py num_floating_point_operations",
    megatron_full,
)
