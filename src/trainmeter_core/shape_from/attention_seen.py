"""The attentions that modules show: their widths, and which of their inputs need a gradient."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Sequence

from .roles import LINEARS, Entry, parts_of, role_of
from .streams import CROSS_ATTENTION


class CoreSeen(NamedTuple):
    """One kind of attention that is clear from names and shapes.

    cross: its keys are the encoder's positions.  frozen: layers whose q, k, v need no gradient.
    inputs: the entries of its queries and of its keys.
    """

    layers: int
    qk_width: int
    v_width: int
    heads: int | None
    in_encoder: bool
    cross: bool
    frozen: Mapping[str, int]
    inputs: tuple[Entry, Entry]


def cores_in(entries: Iterable[Entry]) -> list[CoreSeen]:
    """Attentions of linear layers with q, k, v under one name, or a fused qkv of 3 d outputs; and nn's own."""
    by_parent: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["kind"] in (*LINEARS, "mha"):
            name = ".".join(parts_of(entry))
            by_parent.setdefault(name if entry["kind"] == "mha" else name.rpartition(".")[0], []).append(entry)
    return [core for parent, group in by_parent.items() for core in _cores_of(parent.split("."), group)]


def _cores_of(parts: Sequence[str], group: Sequence[Entry]) -> list[CoreSeen]:
    """The attentions under one name: of torch's own module, of a fused qkv, or of a q beside a k and a v."""
    in_encoder, cross = "encoder" in parts and "decoder" not in parts, bool(CROSS_ATTENTION.intersection(parts))
    frozen, roles = frozen_in(group), [role_of(entry) for entry in group]
    outputs_in = {int(entry["shape"][1]) for entry, role in zip(group, roles) if role == "attention.o"}
    found = []
    for entry, role in zip(group, roles):
        outputs, inputs = (int(n) for n in entry["shape"])
        if entry["kind"] == "mha" or (role == "attention.qkv" and outputs == 3 * inputs):
            width = inputs
        elif (
            role == "attention.q"
            and {"attention.k", "attention.v"} <= set(roles)
            and outputs in (outputs_in or {outputs})
        ):
            width = outputs
        else:
            continue
        keys = next((other for other, its in zip(group, roles) if its == "attention.k"), entry)
        many, heads = int(entry["count"]), entry.get("heads")
        found.append(CoreSeen(many, width, width, heads, in_encoder, cross, frozen, (entry, keys)))
    return found


def frozen_in(entries: Iterable[Entry]) -> dict[str, int]:
    """Layers in which q, k or v comes out without a gradient: frozen, on an input without one, and not adapted."""
    frozen = {"q": 0, "k": 0, "v": 0}
    for entry in entries:
        if entry["kind"] not in (*LINEARS, "mha") or entry["input_grad"]:
            continue
        is_adapter = role_of(entry) == "adapter.A"
        if bool(entry["output_grad"]) != is_adapter:
            continue
        plain = {**entry, "names": ".".join(parts_of(entry))}
        role = "attention.qkv" if entry["kind"] == "mha" else role_of(plain)
        for letter in LETTERS.get(role, ""):
            frozen[letter] += -int(entry["count"]) if is_adapter else int(entry["count"])
    return frozen


LETTERS = {"attention.qkv": "qkv", "attention.q": "q", "attention.k": "k", "attention.v": "v"}
