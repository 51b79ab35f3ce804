"""The fewest bytes that a training step must move through device memory: its weights, and nothing else; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, NamedTuple

from .readings import Absent

if TYPE_CHECKING:
    from .model_shape import ModelShape

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Per element, by dtype; every other one is taken to have a single byte."""
_UNREAD = Absent("the model's description does not tell the bytes of its weights")


class Traffic(NamedTuple):
    """Bytes of one rank's whole model: in each micro-batch, and in each optimizer step beside these."""

    micro_batch: int
    step: int

    def fewest_bytes(self, micro_batches: int, steps: int) -> int:
        """Bytes that so many micro-batches and steps move at the least."""
        return self.micro_batch * micro_batches + self.step * steps


def weight_traffic(description: Mapping[str, Any] | Absent, inactive: int | Absent = 0) -> Traffic | Absent:
    """The fewest bytes that training a described model must move.

    With P weights of w bytes, T of them trained and gradients of g bytes each, a step of m micro-batches moves

        2 P w m    each weight read in the forward and in the backward pass of each micro-batch
        2 T g      each trained weight's gradient written, and read by the optimizer
        2 T w      each trained weight read and written by the optimizer

    A lower bound, of what cannot stay on the chip from one use to the next: optimizer states, activations, inputs and
    every second pass over a gradient are left out. Where a weight need not be read, it does not count: tables in which
    rows are looked up (unless they are the head as well), biases and weights whose input has no gradient in the
    backward pass, and the `inactive` elements, those of the experts that one position does not pass through.

    Tied weights count once. Under autocast a weight is read once a step as it is stored, and otherwise in autocast's
    dtype; where a sharded model's are gathered in a narrower dtype, they and their gradients have that one. A rank's
    optimizer moves that rank's share of a sharded weight.
    Source: the roofline model (Williams, Waterman, Patterson, 2009), whose traffic is here the compulsory part.
    """
    if isinstance(description, Absent):
        return description
    if isinstance(inactive, Absent):
        return inactive
    if description.get("stages"):
        return Absent(f"one of {description['stages']} pipeline stages was seen, which is not the whole model")
    told = description.get("bytes")
    if told is None:
        return _UNREAD
    try:
        forward, backward = _counts(told["forward"]), _counts(told["backward"])
        gradients, trained = _count(told["gradients"]), _count(told["trained"])
    except (KeyError, TypeError, AttributeError):  # written by another version, or edited
        return _UNREAD
    for reads in (forward, backward):
        _leave_out(reads, inactive)
    cast = str(description.get("autocast") or "")
    as_stored = sum(forward.values())
    first, again = _as_cast(forward, cast), _as_cast(backward, cast)
    return Traffic(first + again, as_stored - first + 2 * gradients + 2 * trained)


def traffic_of(description: Mapping[str, Any], shape: ModelShape | Absent) -> Traffic | Absent:
    """The same for a description that was read as this shape."""
    return weight_traffic(description, shape if isinstance(shape, Absent) else shape.inactive_parameters)


def _counts(table: Any) -> dict[str, int]:
    return {str(dtype): _count(size) for dtype, size in table.items()}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no number of bytes")
    return value


def _leave_out(reads: dict[str, int], inactive: int) -> None:
    """Take the experts that may stay unread off the dtype of most weights, which is theirs in every mixture."""
    if reads and inactive:
        most = max(reads, key=reads.__getitem__)
        reads[most] = max(0, reads[most] - inactive * BYTES.get(most, 1))


def _as_cast(reads: Mapping[str, int], cast: str) -> int:
    """The same reads where autocast has made a narrower copy of each weight."""
    total = 0
    for dtype, size in reads.items():
        width, narrow = BYTES.get(dtype, 1), BYTES.get(cast, 1)
        total += size * narrow // width if cast and narrow < width else size
    return total
