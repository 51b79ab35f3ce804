"""`nanogpt`: nanoGPT's estimate_mfu, which takes the token table for the tied head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms, full_attention, main_stream, not_for

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def nanogpt(shape: ModelShape, batch: Batch) -> Terms:
    """(6 (N - N_positions) + 12 L H h T) * B T; N without the experts that a token does not pass.

    Counts norms, biases, padding, attention over all of T, and the token table as the tied head it is in nanoGPT.
    Leaves out the position table. On an untied model the token table counts beside the head.
    Distance: all_params - nanogpt = 6 N_positions; nanogpt - torchtitan = 6 N_tokens per token when untied.
    Source: karpathy/nanoGPT 3adf61e1 (2025-11-12), `model.py` get_num_params and estimate_mfu.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    active = shape.main_parameters
    if isinstance(active, Absent):
        return active
    positions = main_stream(shape).positions(batch)
    n = active - shape.position_lookup_parameters
    formula = f"6 * {positions} positions * {n} parameters"
    return [
        Term("parameters but the position table", formula, 6 * positions * n),
        full_attention(shape, batch),
    ]


CONVENTION = Convention(
    "nanogpt",
    "6 * parameters but the position table + all of the attention",
    "karpathy/nanoGPT 3adf61e1 (2025-11-12), model.py estimate_mfu",
    nanogpt,
)
