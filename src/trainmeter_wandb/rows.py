"""Where one run's history rows begin and end, as the client decides it, so that a row is merged into at most once."""

from __future__ import annotations

from typing import Any


class Rows:
    """Follows the user's log calls of one run.

    A call without step closes the row unless commit is False; a call with a step leaves it open for the next call with
    the same step, unless commit is True. The client drops data for a step that lies behind.
    """

    __slots__ = ("_highest", "_step", "merged")

    def __init__(self) -> None:
        self._step: Any = None
        self._highest: Any = None
        self.merged = False
        """Whether the row that is open has ours."""

    def takes(self, step: Any) -> bool:
        """Say whether ours may go along with a call at this step."""
        if step is None:
            return not self.merged
        if self._highest is not None and step < self._highest:
            return False
        return step != self._step or not self.merged

    def logged(self, step: Any, commit: Any, merged: bool) -> None:
        """Follow a call, into which ours was merged or not."""
        if step is None:
            # Without a step the row ends here, unless the user holds it open.
            self.merged = commit is False and (merged or self.merged)
            return
        if self._highest is None or step >= self._highest:
            if step != self._step:
                self.merged = False
            self._step = self._highest = step
        self.merged = not commit and (merged or self.merged)
