"""Where a row of ours belongs on the axis of steps that the user logs with, in one run of a tracker; pure."""

from __future__ import annotations

# This often the same tag at step 0 means that the user gives no steps at all.
_NO_STEPS = 3

# Tags beyond this many are not followed one by one, so that memory stays bounded.
_MAX_TAGS = 2048


class Axis:
    """The user's steps in one run, and where our last row stands among them."""

    __slots__ = ("_at_zero", "_last", "_lead", "_resumed", "_steady", "_stepless", "latest", "published")

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._at_zero: dict[str, int] = {}
        self._stepless = False
        self._resumed = False
        self._lead: int | None = None
        self._steady = False
        self.latest: int | None = None
        self.published: int | None = None

    def resumed(self) -> None:
        """The user's program said that it starts again from an earlier step."""
        self._resumed = True

    def saw(self, tag: str, step: int) -> tuple[bool, bool]:
        """Follow a scalar of the user's. Gives whether its step advanced, and whether a row may stand at it.

        A row may not stand at the smaller steps of a second axis (epochs beside batches), where it would jump back;
        it may where the tag itself went back, because then the axis was started anew.
        """
        before = self._last.get(tag)
        if before is not None or len(self._last) < _MAX_TAGS:
            self._last[tag] = step
        self._note_zero(tag, step)
        went_back = before is not None and step < before
        ahead = self.published is None or step >= self.published
        fits = (ahead or went_back or self._resumed) and not self._waits_at_zero(step)
        if fits:
            self.latest = step
        return before is not None and step > before, fits

    def _note_zero(self, tag: str, step: int) -> None:
        if step:
            self._stepless = False
            self._at_zero.clear()
        elif not any(self._last.values()):
            if tag in self._at_zero or len(self._at_zero) < _MAX_TAGS:
                self._at_zero[tag] = self._at_zero.get(tag, 0) + 1
            self._stepless = self._at_zero.get(tag, 0) >= _NO_STEPS or self._stepless

    def _waits_at_zero(self, step: int) -> bool:
        return step == 0 and self.published == 0 and not self._stepless

    def place(self, step: int, optimizer_step: float | None) -> int:
        """Give the step for a row beside a scalar at `step`; the optimizer's where the user gives none."""
        if step == 0 and self._stepless and optimizer_step is not None:
            return int(optimizer_step)
        self._resumed = False
        self.published = step
        lead = None if optimizer_step is None else int(optimizer_step) - step
        self._steady = lead is not None and lead == self._lead
        self._lead = lead
        return step

    def end(self, optimizer_step: float | None) -> int:
        """Give the step of the closing row: the user's last, or where their axis counts optimizer steps, the last one.

        It does so when the last two rows stood equally far from the optimizer's step.
        """
        if self.latest is None or (self._stepless and self.latest == 0):
            return int(optimizer_step or 0)
        if self._steady and self._lead is not None and optimizer_step is not None:
            return max(self.latest, int(optimizer_step) - self._lead)
        return self.latest
