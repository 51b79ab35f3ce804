"""Module entries written from a config instead of read from a model, in the form that a description has them."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Sequence

Entry = Dict[str, Any]


def _entry(kind: str, names: str, shape: Sequence[int], count: int, bias: bool, **extra: Any) -> list[Entry]:
    if not count:
        return []
    common = {"count": count, "bias": bias, "trainable": True, "tied": False, "input_grad": True, "output_grad": True}
    return [{"kind": kind, "class": "", "names": names, "shape": list(shape), **common, **extra}]


def linear(
    names: str, outputs: int, inputs: int, count: int = 1, *, bias: bool = False, tied: bool = False
) -> list[Entry]:
    """`count` linear layers."""
    return _entry("linear", names, (outputs, inputs), count, bias, tied=tied)


def table(names: str, rows: int, width: int, count: int = 1) -> list[Entry]:
    """`count` lookup tables."""
    return _entry("embedding", names, (rows, width), count, bias=False)


def norm(names: str, features: int, count: int = 1, *, parts: int = 1) -> list[Entry]:
    """`count` norms; parts: 1 for a weight, 2 with a bias, 0 for none."""
    return _entry("norm", names, (features,), count if parts else 0, bias=parts > 1)


def other(names: str, shape: Sequence[int], count: int = 1) -> list[Entry]:
    """Parameters of no matmul: learned tokens and positions, gates, decays."""
    name = names.rpartition(".")[2]
    return _entry("other", names, shape, count, bias=False, parameters={name: list(shape)})


def experts(names: str, many: int, outputs: int, inputs: int, count: int, *, bias: bool = False) -> list[Entry]:
    """The stacked weights of `many` experts, in `count` layers."""
    return _entry("experts", names, (many, outputs, inputs), count, bias, bias_size=many * outputs)


def conv(
    names: str, outputs: int, inputs: int, kernel: Sequence[int], count: int = 1, *, groups: int = 1, bias: bool = False
) -> list[Entry]:
    """`count` convolutions."""
    extra = {"kernel": list(kernel), "stride": [1] * len(kernel), "groups": groups, "transposed": False}
    return _entry("conv", names, (outputs, inputs), count, bias, **extra)


def prod(shape: Iterable[int]) -> int:
    """The elements of a tensor."""
    size = 1
    for n in shape:
        size *= n
    return size


def parameters(entries: Iterable[Mapping[str, Any]], position_tables: Iterable[str]) -> dict[str, int]:
    """The `params` of a description whose modules are these, everything trainable."""
    sums = {"total": 0, "lookup": 0, "position_lookup": 0, "norm_bias": 0}
    for entry in entries:
        kind, size = entry["kind"], prod(entry["shape"])
        if kind == "conv":
            size = size // entry["groups"] * prod(entry["kernel"])
        if kind == "other":
            size = sum(prod(shape) for shape in entry["parameters"].values())
        size *= 0 if entry["tied"] else entry["count"]
        has_bias = entry["bias"] and kind != "other"
        bias = entry.get("bias_size", entry["shape"][0]) * entry["count"] if has_bias else 0
        sums["total"] += size + bias
        sums["norm_bias"] += bias + (size if kind in ("norm", "other") and len(entry["shape"]) == 1 else 0)
        if kind == "embedding":
            sums["lookup"] += size
            if entry["names"].rpartition(".")[2] in position_tables:
                sums["position_lookup"] += size
    return {**sums, "trainable": sums["total"]}
