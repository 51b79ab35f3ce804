"""Whether two passports tell of the same run: one read from its directory, the other from a tracker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    from .sheet import Json

MAY_DIFFER = {
    "identity.trackers": "a tracker that was told of only after another one's copy was written is not in that copy",
    "ends": "a tracker's copy is written by the training process itself, before it ends",
    "time.wall_s": "as above: to the end of the command here, to the last record there",
    "time.rank_seconds": "what follows the last step, the tracker's own closing call among it, comes after the copy",
    "time.shares": "percent of the seconds above",
    "time.startup_s": "the agent's clock against the clock of the log, some milliseconds apart",
    "observation.lines": "lines of the log; a tracker has none",
    "readings": "means and ranges of the node's and the GPUs' readings, which `tm` samples beside the process",
    "energy": "read at the end of the command",
    "gaps": "follow from the fields above",
    "digest": "covers the fields above",
}
"""The fields that may differ between a run directory and a tracker's copy, each with the reason."""

# The ring holds durations as 32-bit floats, the process sums 64-bit ones.
RELATIVE = 1e-5


def differences(one: Json, other: Json) -> list[str]:
    """Fields that differ although they may not; an empty list for two passports of the same run."""
    return [field for field, a, b in _different("", one, other) if not _may_differ(field) and not _close(a, b)]


def _may_differ(field: str) -> bool:
    return any(field == name or field.startswith(name + ".") for name in MAY_DIFFER)


def _different(field: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from _different(f"{field}.{name}" if field else name, one.get(name), other.get(name))
    elif one != other:
        yield field, one, other


def _close(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=RELATIVE)
