"""`exact`: the matmul FLOPs of what a training pass really has to compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def exact(shape: ModelShape, batch: Batch) -> Terms:
    """Every matmul on its own positions, every attention core on the pairs its mask lets through.

    Counts heads times head_dim, router and active and shared experts, the head tied or not, encoder and decoder and
    patches each on its own positions, real tokens only, and as many passes as autograd needs: the forward one, one
    more for a trainable weight, one more for an input with a gradient.
    Leaves out lookups, norms, biases, softmax, elementwise work and recomputation.
    Distance: nanochat - exact = 6 L H h (T - 1) per token on a dense causal decoder without padding.
    """
    if shape.gap:
        return Absent(shape.gap)
    for stream in shape.streams():
        if not stream.is_known(batch):
            return Absent(f"the number of positions of {stream.name} is not known")
    terms = _matmuls(shape, batch)
    for core in shape.cores:
        pairs = core.pairs(batch)
        if isinstance(pairs, Absent):
            return pairs
        kind = "cross attention core" if core.queries != core.keys else "attention core"
        name = kind if core.window is None else f"{kind}, window {core.window}"
        formula = f"2 * {pairs} pairs * {core.width_passes} widths times passes * {core.count} layers"
        terms.append(Term(name, formula, 2 * pairs * core.width_passes * core.count))
    for scan in shape.scans:
        passes, positions = (3 if scan.grad else 1), scan.stream.real(batch)
        formula = f"{passes} * {positions} positions * {scan.flops} FLOPs ({scan.formula}) * {scan.count} layers"
        terms.append(Term(scan.role, formula, passes * positions * scan.flops * scan.count))
    if not terms:
        return Absent("no matmul is visible in this model")
    return terms


def _matmuls(shape: ModelShape, batch: Batch) -> list[Term]:
    """A line for each part, stream and number of passes."""
    sums: dict[tuple[str, str, int, int], int] = {}
    for m in shape.matmuls:
        key = (m.part, m.stream.name, m.stream.real(batch), 1 + m.trainable + m.input_grad)
        sums[key] = sums.get(key, 0) + m.active_weights
    return [
        Term(
            part if stream == "tokens" else f"{part} ({stream})",
            f"{2 * passes} * {positions} positions * {weights} weights",
            2 * passes * positions * weights,
        )
        for (part, stream, positions, passes), weights in sums.items()
    ]


CONVENTION = Convention(
    "exact",
    "the matmul FLOPs that have to be computed: exact masks, real tokens, frozen weights seen",
    "trainmeter; each rule beside its source in docs/flops.md",
    exact,
)
