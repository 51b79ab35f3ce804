"""A row of a run that did not begin with this process: its sums go on from where they stood; pure."""

from __future__ import annotations

from typing import Mapping

from .series import CUMULATIVE, PREFIX

_PROGRESS = PREFIX + "progress_pct"
_ETA = PREFIX + "eta_s"


def continued(row: Mapping[str, float], *, before: Mapping[str, float], since: Mapping[str, float]) -> dict[str, float]:
    """Give the row with its sums as those of the whole run.

    ``before`` holds the sums of the run's earlier processes (it was resumed), ``since`` the sums that this process had
    when the run began (an earlier run had the process before). Names with prefix.
    """
    told = dict(row)
    if not before and not since:
        return told
    scale = 1.0
    step = PREFIX + "step"
    if row.get(step):
        scale = (row[step] + before.get(step, 0) - since.get(step, 0)) / row[step]
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
