"""`chinchilla`: the forward count of the Chinchilla paper, times three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms, by_part, full_attention, main_stream, not_for, weight_terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def chinchilla(shape: ModelShape, batch: Batch) -> Terms:
    """3 * (2 T V d + layers + 3 L H T T + 2 T V d) * B: the input table as a matmul, softmax as 3 FLOPs per score.

    Counts matmuls, head (tied or not), token table, attention over all of T, softmax, padding. Leaves out the
    position table, norms and biases.
    Distance: chinchilla - nanochat = 6 V d + 9 L H T per token without windows.
    Source: Hoffmann et al. 2022, arXiv 2203.15556, appendix F; gates, grouped heads and active experts as they are.
    """
    absent = not_for(shape, vocabulary=True)
    if absent is not None:
        return absent
    heads = [core.heads for core in shape.cores]
    if None in heads:
        return Absent("the softmax term needs the number of heads, which is not visible in this model")
    positions, keys = main_stream(shape).positions(batch), main_stream(shape).padded(batch)
    table = shape.token_lookup_parameters
    scores = sum((core.heads or 0) * core.count for core in shape.cores)
    return [
        Term("token table as a matmul", f"6 * {positions} positions * {table} weights", 6 * positions * table),
        *weight_terms(by_part(shape.main_matmuls), positions),
        full_attention(shape, batch),
        Term(
            "softmax",
            f"3 * 3 * {positions} positions * {scores} heads of all layers * {keys} keys",
            9 * positions * scores * keys,
        ),
    ]


CONVENTION = Convention(
    "chinchilla",
    "3 * forward with the input table as a matmul and softmax",
    "arXiv 2203.15556 appendix F",
    chinchilla,
)
