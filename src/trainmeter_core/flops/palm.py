"""`palm` and `all_params`: six FLOPs for every parameter, and all of the attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms, full_attention, main_stream, not_for

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def palm(shape: ModelShape, batch: Batch) -> Terms:
    """(6 N + 12 L H h T) * B T; N without the experts that a token does not pass, a shared table once.

    Counts norms, biases, padding, every table and attention over all of T. The paper's model has a tied head and no
    position table, so for it the one table is the head.
    Distance: palm - torchtitan = 6 N_e per token on an untied dense decoder, 0 on a tied one.
    Source: Chowdhery et al. 2022, arXiv 2204.02311, appendix B; the paper is dense, active experts are our reading.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    n = shape.main_parameters
    if isinstance(n, Absent):
        return n
    positions = main_stream(shape).positions(batch)
    return [
        Term("parameters", f"6 * {positions} positions * {n} parameters", 6 * positions * n),
        full_attention(shape, batch),
    ]


def all_params(shape: ModelShape, batch: Batch) -> Terms:
    """(6 N + 12 L H h T) * B T: `palm`, line by line, so that what the lookup tables add is seen.

    Counts every table as if it were a matmul; a table shared with the head counts once, as one tensor.
    Distance: all_params - torchtitan = 6 N_e per token on an untied dense decoder; all_params - palm = 0.
    Source: the plain reading of 6 N; litgpt 0.5.13 and verl 0.9.1 count the input table in the same way.
    """
    absent = not_for(shape)
    if absent is not None:
        return absent
    n = shape.main_parameters
    if isinstance(n, Absent):
        return n
    positions = main_stream(shape).positions(batch)
    tables = shape.main_lookup_parameters
    rest = n - tables
    name = "lookup tables, one of them the head" if shape.tied else "lookup tables as matmuls"
    return [
        Term(
            "parameters outside lookup tables", f"6 * {positions} positions * {rest} parameters", 6 * positions * rest
        ),
        Term(name, f"6 * {positions} positions * {tables} parameters", 6 * positions * tables),
        full_attention(shape, batch),
    ]


CONVENTION = Convention(
    "palm",
    "6 * active parameters, a shared table once + all of the attention",
    "arXiv 2204.02311 appendix B",
    palm,
)
CONVENTION_ALL = Convention(
    "all_params",
    "6 * active parameters with lookup tables as matmuls + all of the attention",
    "the plain reading of 6 N",
    all_params,
)
