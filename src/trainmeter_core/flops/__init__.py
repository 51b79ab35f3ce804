"""FLOPs conventions: training FLOPs of a batch under each named way of counting, with every line of each count."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Mapping

from trainmeter_core.readings import Absent

from . import chinchilla, exact, hf, kaplan, megatron, nanochat, nanogpt, palm, torchtitan
from .terms import Convention, Term

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape

__all__ = [
    "CONVENTIONS",
    "HEADLINE",
    "Convention",
    "Term",
    "all_training_flops",
    "explain",
    "flops_per_token",
    "training_flops",
]

CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        convention.name: convention
        for convention in (
            hf.CONVENTION,
            megatron.CONVENTION,
            megatron.CONVENTION_FULL,
            torchtitan.CONVENTION,
            nanochat.CONVENTION,
            nanogpt.CONVENTION,
            palm.CONVENTION,
            kaplan.CONVENTION,
            chinchilla.CONVENTION,
            palm.CONVENTION_ALL,
            exact.CONVENTION,
        )
    }
)
HEADLINE = "torchtitan"


def explain(name: str, shape: ModelShape, batch: Batch) -> list[Term] | Absent:
    """The lines of a count: (term, formula with its numbers, FLOPs); their sum is the count.

    Raises KeyError for a name that is no convention.
    """
    return CONVENTIONS[name].terms(shape, batch)


def training_flops(name: str, shape: ModelShape, batch: Batch) -> int | Absent:
    """FLOPs of one forward and backward pass over the whole batch, an exact integer; Absent where it does not apply."""
    terms = explain(name, shape, batch)
    return terms if isinstance(terms, Absent) else sum(term.flops for term in terms)


def flops_per_token(name: str, shape: ModelShape, batch: Batch) -> int | float | Absent:
    """Training FLOPs per token of the batch (B*T, padding included); an int whenever it divides."""
    flops = training_flops(name, shape, batch)
    if isinstance(flops, Absent):
        return flops
    whole, rest = divmod(flops, batch.tokens)
    return flops / batch.tokens if rest else whole


def all_training_flops(shape: ModelShape, batch: Batch) -> dict[str, int | Absent]:
    """Training FLOPs of the batch under every convention, in the order of CONVENTIONS."""
    return {name: training_flops(name, shape, batch) for name in CONVENTIONS}
