"""The seam to the FLOPs conventions: a model's description in, training FLOPs of any batches out."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Sequence, Union

from trainmeter_core.readings import Absent

FlopsTable = Dict[str, Union[int, Absent]]


class Formulas(NamedTuple):
    """Every convention applied to one model. `of_sequence` takes (sequence length, target length)."""

    headline: str
    shape: Any
    shape_source: str
    of_sequence: Callable[[int, int], Mapping[str, int | Absent]]
    executed_of_sequence: Callable[[int, int], int | Absent] | None = None
    """FLOPs executed for one sequence with the recomputation that the model shows; None where it shows none."""

    def executed(self, rows: Iterable[Sequence[int]]) -> int | Absent:
        """FLOPs that rows of (sequences, length, target length, calls) execute, recomputation included."""
        if self.executed_of_sequence is None:
            return Absent("what is recomputed is not visible in the model")
        total = 0
        for many, seq_len, target_len, calls in rows:
            flops = self.executed_of_sequence(seq_len, target_len) if many * calls else 0
            if isinstance(flops, Absent):
                return flops
            total += flops * many * calls
        return total

    def of_batches(self, rows: Iterable[Sequence[int]]) -> FlopsTable:
        """Training FLOPs under each convention, over rows of (sequences, length, target length, calls).

        Every convention is linear in the sequences of equal lengths, so each pair of lengths is computed once.
        A convention that does not apply to one of the lengths is Absent for all of them.
        """
        sequences: dict[tuple[int, int], int] = {}
        for many, seq_len, target_len, calls in rows:
            if many * calls:
                sequences[seq_len, target_len] = sequences.get((seq_len, target_len), 0) + many * calls
        sums: FlopsTable = {}
        for lengths, many in sequences.items():
            for name, flops in self.of_sequence(*lengths).items():
                before = sums.get(name, 0)
                if isinstance(before, Absent):
                    continue
                sums[name] = flops if isinstance(flops, Absent) else before + flops * many
        return sums


def formulas_for(description: Mapping[str, Any] | Absent) -> Formulas | Absent:
    """The conventions of this installation for a described model, or why there are none."""
    if isinstance(description, Absent):
        return Absent("no model was seen")
    try:
        flops = importlib.import_module("trainmeter_core.flops")
        executed = importlib.import_module("trainmeter_core.flops.executed")
        shape_from = importlib.import_module("trainmeter_core.shape_from")
    except ImportError:  # an agent's directory without the formulas
        return Absent("FLOPs conventions are not part of this installation")
    shaped = shape_from.shape_read(description)
    if isinstance(shaped, Absent):
        return shaped
    shape, source = shaped

    def of_sequence(seq_len: int, target_len: int) -> Mapping[str, int | Absent]:
        batch = shape.batch_seen(1, seq_len, target_len)
        if isinstance(batch, Absent):
            return dict.fromkeys(flops.CONVENTIONS, batch)
        table: Mapping[str, int | Absent] = flops.all_training_flops(shape, batch)
        return table

    recompute = description.get("recompute")

    def executed_of_sequence(seq_len: int, target_len: int) -> int | Absent:
        batch = shape.batch_seen(1, seq_len, target_len)
        if isinstance(batch, Absent):
            return batch
        count: int | Absent = executed.executed_flops(shape, batch, recompute)
        return count

    known = (recompute is None or isinstance(recompute, str)) and recompute in executed.RECOMPUTED
    try:
        of_sequence(1, 1)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):  # parts that are no numbers
        return Absent("the model's description is not one that this version can read")
    return Formulas(flops.HEADLINE, shape, source, of_sequence, executed_of_sequence if known else None)
