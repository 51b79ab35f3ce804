"""Counts of single micro-batches, made by running one, carried over to all batches of a run."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence, Tuple

from trainmeter_core.readings import Absent

Count = Tuple[int, int, int, int]
"""Sequences, length, target length of one micro-batch, and the FLOPs of its training pass."""

NOT_ASKED = "executed FLOPs were not counted: tm --count counts them"


class Counted(NamedTuple):
    """What torch's own formulas add up to in one training pass, recomputation included.

    gaps: operations that ran and have no formula.  absent: why there is no count; empty when there is one.
    """

    counts: tuple[Count, ...] = ()
    gaps: tuple[str, ...] = ()
    absent: str = NOT_ASKED

    def of_batches(self, rows: Iterable[Sequence[int]]) -> int | float | Absent:
        """FLOPs of rows of (sequences, length, target length, calls); linear in sequences of the same lengths.

        Absent where batches have other lengths than a counted one: attention does not grow in proportion.
        """
        if not self.counts:
            return Absent(self.absent)
        known = {(length, target): (sequences, flops) for sequences, length, target, flops in self.counts}
        whole, part, calls_of_others, all_calls = 0, 0.0, 0, 0
        for sequences, length, target, calls in rows:
            all_calls += calls
            if (length, target) not in known:
                calls_of_others += calls
                continue
            of, flops = known[length, target]
            quotient, rest = divmod(flops * sequences * calls, of)
            whole += quotient
            part += rest / of
        if calls_of_others:
            return Absent(f"{calls_of_others} of {all_calls} micro-batches have other lengths than the counted ones")
        if not all_calls:
            return Absent("no batch was seen")
        return whole + part if part else whole

    def executed(self, rows: Iterable[Sequence[int]]) -> int | float | Absent:
        """The same for an HFU: Absent where operations without a formula ran, which would make it too low."""
        flops = self.of_batches(rows)
        if self.gaps and not isinstance(flops, Absent):
            return Absent("the counted FLOPs leave out " + ", ".join(self.gaps))
        return flops


def counted_from(fields: Mapping[str, Any]) -> Counted:
    """The count in a `counted` event or record. Raises KeyError, TypeError or ValueError for one that is none."""
    counts = tuple((int(b), int(t), int(t2), int(flops)) for b, t, t2, flops in fields["counts"])
    if any(b < 1 or min(t, t2, flops) < 0 for b, t, t2, flops in counts):
        raise ValueError("not a count of FLOPs")
    return Counted(counts, tuple(str(gap) for gap in fields["gaps"]), str(fields.get("absent") or ""))
