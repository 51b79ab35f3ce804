"""Which of a program's MLflow runs is the one that gets our series; pure.

A program may keep a parent run beside nested ones, one for training beside one for evaluation, or one after another.
Ours go where the training curve goes.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from trainmeter_core.step_axis import Axis

# A run that shall replace the primary one must have shown this much more than it.
_CLEARLY_MORE = 2
_MARGIN = 3

_MOST_RUNS = 512


class Run:
    """What is known of one run.

    `score` counts the user's values whose step went forward; `since` holds the sums that the process had already when
    an earlier run of its had ended.
    """

    __slots__ = ("axis", "began", "ended", "run_id", "score", "since", "store")

    def __init__(self, store: Any, run_id: str, since: Mapping[str, float]) -> None:
        self.since = since
        self.store = store
        self.run_id = run_id
        self.axis = Axis()
        self.score = 0
        self.began = False
        self.ended = False


class Runs:
    """All runs that the program logs to, and the primary one among them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Run] = {}
        self.primary: Run | None = None
        self.since: Mapping[str, float] = {}
        """For runs that are still to come."""

    def of(self, store: Any, run_id: str) -> Run:
        """Give what is known of a run, noted on first sight."""
        key = (id(store), run_id)
        run = self._known.get(key)
        if run is None:
            run = Run(store, run_id, self.since)
            if len(self._known) >= _MOST_RUNS:
                self._known.pop(next(iter(self._known)))
            self._known[key] = run
        return run

    def find(self, store: Any, run_id: str) -> Run | None:
        """Give a run that was seen before."""
        return self._known.get((id(store), run_id))

    def follow(self, run: Run, logged: Iterable[tuple[str, int]]) -> bool:
        """Take note of what the user logged, as (name, step); says whether a row may stand at the last step."""
        fits = False
        for key, step in logged:
            advanced, at_place = run.axis.saw(key, step)
            run.score += advanced
            fits = fits or at_place
        return fits

    def elect(self, candidate: Run) -> bool:
        """Say whether the candidate, which just got values of the user's, is the primary run from now on."""
        primary = self.primary
        if primary is candidate:
            return True
        if candidate.ended:
            return False
        if primary is not None and not primary.ended and candidate.score <= _CLEARLY_MORE * primary.score + _MARGIN:
            return False
        self.primary = candidate
        return True
