"""The line items of a count, and the sums that several conventions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, List, NamedTuple, Union

from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, Matmul, ModelShape, Stream


class Term(NamedTuple):
    """One line of a count: what it is, the formula with its numbers, and the FLOPs."""

    term: str
    formula: str
    flops: int


Terms = Union[List[Term], Absent]


class Convention(NamedTuple):
    """A named way to count: one line of meaning, where it comes from, and the function that returns its terms."""

    name: str
    meaning: str
    source: str
    terms: Callable[[ModelShape, Batch], Terms]


def not_for(shape: ModelShape, *, vocabulary: bool = False) -> Absent | None:
    """Why a formula for transformers over one run of positions does not fit this model; None when it fits."""
    if shape.gap:
        return Absent(shape.gap)
    if not shape.cores and not shape.scans:
        return Absent("no attention in this model")
    if len({stream for core in shape.cores for stream in (core.queries, core.keys)}) > 1:
        return Absent("this formula has one stream of positions, and the model attends over several")
    if vocabulary and not shape.token_lookup_parameters and not any(m.part == "head" for m in shape.matmuls):
        return Absent("no vocabulary in this model")
    return None


def by_part(matmuls: tuple[Matmul, ...]) -> dict[str, int]:
    """Active weights of each part, in the order in which the parts appear."""
    sums: dict[str, int] = {}
    for m in matmuls:
        sums[m.part] = sums.get(m.part, 0) + m.active_weights
    return sums


def weight_terms(sums: dict[str, int], positions: int) -> list[Term]:
    """6 FLOPs per weight and position, a line per part."""
    return [Term(part, f"6 * {positions} positions * {n} weights", 6 * positions * n) for part, n in sums.items() if n]


def main_stream(shape: ModelShape) -> Stream:
    """The one stream of positions of a model that `not_for` has let through."""
    return shape.cores[0].queries if shape.cores else shape.scans[0].stream


def full_attention(shape: ModelShape, batch: Batch) -> Term:
    """3 passes * 2 FLOPs * (qk + v width) * T keys at each position: 12 L H h T; causal mask and windows ignored."""
    width = sum((core.qk_width + core.v_width) * core.count for core in shape.cores)
    positions, keys = main_stream(shape).positions(batch), main_stream(shape).padded(batch)
    return Term(
        "attention core",
        f"6 * {positions} positions * {width} qk and v width of all layers * {keys} keys",
        6 * positions * width * keys,
    )
