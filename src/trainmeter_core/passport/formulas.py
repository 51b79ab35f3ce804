"""The seam to the FLOPs conventions: a model's description in, training FLOPs of any batch out."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Tuple, Union

from trainmeter_core.readings import Absent

Batches = Iterable[Tuple[int, int, int, int]]
FlopsTable = Dict[str, Union[int, Absent]]


class Formulas(NamedTuple):
    """Every convention applied to one model. `of_batch` takes (sequences, sequence length, target length)."""

    headline: str
    shape: Any
    shape_source: str
    of_batch: Callable[[int, int, int], Mapping[str, int | Absent]]

    def of_batches(self, batches: Batches) -> FlopsTable:
        """Training FLOPs under each convention, summed over entries of (sequences, length, target length, calls).

        A convention that does not apply to one of the batches is Absent for all of them.
        """
        sums: FlopsTable = {}
        for sequences, seq_len, target_len, calls in batches:
            for name, flops in self.of_batch(sequences, seq_len, target_len).items():
                before = sums.get(name, 0)
                if isinstance(before, Absent):
                    continue
                sums[name] = flops if isinstance(flops, Absent) else before + flops * calls
        return sums


def formulas_for(description: Mapping[str, Any] | Absent) -> Formulas | Absent:
    """The conventions of this installation for a described model, or why there are none."""
    if isinstance(description, Absent):
        return Absent("no model was seen")
    try:
        flops = importlib.import_module("trainmeter_core.flops")
        shape_from = importlib.import_module("trainmeter_core.shape_from")
        model_shape = importlib.import_module("trainmeter_core.model_shape")
        shaped = shape_from.shape_of(description)
    except (ImportError, AttributeError):  # an agent's directory without the formulas
        return Absent("FLOPs conventions are not part of this installation")
    if isinstance(shaped, Absent):
        return shaped
    shape, source = shaped

    def of_batch(sequences: int, seq_len: int, target_len: int) -> Mapping[str, int | Absent]:
        batch = model_shape.Batch(sequences, seq_len, target_len)
        table: Mapping[str, int | Absent] = flops.all_training_flops(shape, batch)
        return table

    return Formulas(flops.HEADLINE, shape, source, of_batch)
