"""A row of a run that did not begin with this process: its sums go on from where they stood; pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from .series import CUMULATIVE, PREFIX

_PROGRESS = PREFIX + "progress_pct"
_ETA = PREFIX + "eta_s"
_STEP = PREFIX + "step"
# Where tm leaves it in the spool: for all that begin, or with a process ID for one.
FILE = "before"


class Before(NamedTuple):
    """What a run had when a process began: its sums by series name without prefix, None for one that is not known."""

    sums: Mapping[str, float | None]
    lost: float = 0
    """Steps among them that a restart threw away."""


NOTHING = Before({})
NOT_TOLD = Before(dict.fromkeys(CUMULATIVE))


def of_the_run(row: Mapping[str, float], before: Before) -> dict[str, float]:
    """Give the row of a process as one of its run; what is not known of the run is left out."""
    known = {PREFIX + name: value for name, value in before.sums.items() if value}
    told = continued(row, before=known, since={}, lost=before.lost)
    unknown = [PREFIX + name for name, value in before.sums.items() if value is None]
    if _STEP in unknown:
        unknown += [_PROGRESS, _ETA, PREFIX + "eta_plus_minus_s"]
    for name in unknown:
        told.pop(name, None)
    return told


def continued(
    row: Mapping[str, float], *, before: Mapping[str, float], since: Mapping[str, float], lost: float = 0
) -> dict[str, float]:
    """Give the row with its sums as those of the whole run.

    ``before`` holds the sums of the run's earlier processes (it was resumed), ``since`` the sums that this process had
    when the run began (an earlier run had the process before). Names with prefix. ``lost`` are steps among those before
    that are no progress.
    """
    told = dict(row)
    if not before and not since:
        return told
    scale = 1.0
    if row.get(_STEP):
        scale = (row[_STEP] + before.get(_STEP, 0) - lost - since.get(_STEP, 0)) / row[_STEP]
    for name in (PREFIX + each for each in CUMULATIVE):
        if name in told or name in before:
            told[name] = told.get(name, 0) + before.get(name, 0) - since.get(name, 0)
    _budget(told, scale)
    return told


def _budget(told: dict[str, float], scale: float) -> None:
    """Progress and time left, for a budget that is spent evenly over the steps; unknown once it is used up."""
    done = told.get(_PROGRESS)
    if done is None:
        return
    now = min(100.0, done * scale)
    told[_PROGRESS] = now
    if _ETA in told and done < 100:  # noqa: PLR2004 - percent
        told[_ETA] *= (100.0 - now) / (100.0 - done)
