"""What a passport's fields are to a check: what follows from other fields, what it follows from, and what is told."""

from __future__ import annotations

FOLLOWS = "follows"
"""Computed again by a check, which names the field when it does not hold."""
INPUT = "input"
"""Something may follow from it: an edit shows there."""
TOLD = "told"
"""Nothing follows from it: only the digest tells an edit."""

FIELDS = {
    "version": TOLD,
    "identity": TOLD,
    "software": TOLD,
    "hardware": TOLD,
    "hardware.gpus": INPUT,
    "hardware.gpus.*.name": TOLD,
    "hardware.devices": FOLLOWS,
    "hardware.world_size": INPUT,
    "hardware.ranks_seen": INPUT,
    "hardware.batch_ranks": INPUT,
    "hardware.batches_seen": INPUT,
    "hardware.reference_mhz": INPUT,
    "hardware.bandwidth": INPUT,
    "options": INPUT,
    "options.peak_source": TOLD,
    "options.budget_source": TOLD,
    "model": FOLLOWS,
    "model.description": INPUT,
    "data": INPUT,
    "data.steps_skipped": TOLD,
    "data.micro_batches": TOLD,
    "data.padding_pct": FOLLOWS,
    "data.counted.gaps": INPUT,
    "steady": INPUT,
    "steady.shortest_step_s": TOLD,
    "steady.longest_step_s": TOLD,
    "steady.gpus": TOLD,
    **{
        "steady.gpus.*." + reading: INPUT
        for reading in (
            "gpu_util_pct", "graphics_util_pct", "sm_active_pct", "tensor_active_pct", "dram_active_pct",
            "sm_clock_mhz", "ofu_pct", "throttle/power_cap",
        )
    },
    "compute": FOLLOWS,
    "efficiency": FOLLOWS,
    "verdicts": TOLD,
    "time": TOLD,
    "time.rank_seconds": INPUT,
    "time.shares": FOLLOWS,
    "energy": FOLLOWS,
    "losses": TOLD,
    "ends.how": FOLLOWS,
    "ends.status": INPUT,
    "readings": TOLD,
    "readings.gpus.*.energy_j.max": INPUT,
    "observation": TOLD,
    "gaps.*.field": FOLLOWS,
    "gaps.*.reason": TOLD,
    "digest": FOLLOWS,
}  # fmt: skip
"""By field or by a beginning of it, of which the longest counts; a star is any one name or number."""

_OF_A_NUMBER = ("unit", "source", "columns")


def kind_of(path: tuple[str | int, ...]) -> str:
    """What the field at a path is. Raises KeyError for one that the table does not name.

    Unit, source and columns follow, wherever there are any, from what the field is.
    """
    if set(_OF_A_NUMBER) & set(path[1:]):
        return FOLLOWS
    for length in range(len(path), 0, -1):
        for pattern, kind in _BY_LENGTH.get(length, ()):
            if all(name in ("*", str(step)) for name, step in zip(pattern, path)):
                return kind
    raise KeyError(".".join(map(str, path)))


_BY_LENGTH: dict[int, list[tuple[list[str], str]]] = {}
for _field, _kind in FIELDS.items():
    _BY_LENGTH.setdefault(len(_field.split(".")), []).append((_field.split("."), _kind))
