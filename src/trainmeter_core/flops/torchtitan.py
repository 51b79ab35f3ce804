"""`torchtitan`: PaLM's definition without the lookup tables; the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms, by_part, full_attention, main_stream, not_for, weight_terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def torchtitan(shape: ModelShape, batch: Batch) -> Terms:
    """(6 (N_active - N_e) + 6 L H (h_qk + h_v) T) * B T; with a tied head no table is subtracted.

    Counts norms, biases, router, shared and active experts, padding, and attention over all of T in every layer.
    Leaves out lookup tables, an encoder of pictures, the causal half and windows. A tied head makes the original keep
    every table, so that a learned position table then counts as a matmul.
    Distance: torchtitan - hf = 12 L H h T, all_params - torchtitan = 6 N_e per token, both on an untied dense decoder.
    Source: pytorch/torchtitan b5bcd76c (2026-08-21), `torchtitan/models/utils.py` get_dense_model_nparams_and_flops
    and get_moe_model_nparams_and_flops.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    active = shape.main_parameters
    if isinstance(active, Absent):
        return active
    positions = main_stream(shape).positions(batch)
    untied = tuple(m for m in shape.main_matmuls if not m.tied)
    tables = shape.main_lookup_parameters if shape.tied else 0
    rest = active - shape.main_lookup_parameters - sum(m.active_weights for m in untied)
    terms = weight_terms(by_part(untied), positions)
    if tables:
        terms.append(
            Term(
                "head, and every table with it",
                f"6 * {positions} positions * {tables} weights of the tied head and the other tables",
                6 * positions * tables,
            )
        )
    terms.append(
        Term(
            "norms, biases and other parameters",
            f"6 * {positions} positions * {rest} parameters",
            6 * positions * rest,
        )
    )
    terms.append(full_attention(shape, batch))
    return terms


CONVENTION = Convention(
    "torchtitan",
    "6 * active parameters outside lookup tables + all of the attention",
    "pytorch/torchtitan b5bcd76c (2026-08-21), torchtitan/models/utils.py",
    torchtitan,
)
