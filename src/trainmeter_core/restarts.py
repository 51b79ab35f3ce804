"""Where a run went on after each restart, and how many steps a restart threw away; pure.

A run has a line of steps: the first process begins it at 0, and a later one goes on from the point that it resumed
from. Steps beyond that point were made in vain. The point is told, in this order, by

1. the optimizer's own count of its steps, where the program restored it (Adam and its like keep one);
2. the file that was loaded, where a save of that very file was seen: the step at which it was saved;
3. nothing loaded and an optimizer that is new: the beginning;
4. else, as an assumption, the last save that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, NamedTuple

from .readings import Absent

MOST_LIVES = 256
MOST_SAVES = 64
_TOO_MANY = Absent(f"the run was restarted more than {MOST_LIVES} times")
_NOT_TOLD = Absent(
    "where the program went on after a restart is not known: no checkpoint was seen to be saved or loaded, and its "
    "optimizer keeps no count of its steps that can be read"
)


class Lost(NamedTuple):
    """Steps that were made and thrown away; `assumed` where the last save that was seen stands for the resume point."""

    steps: int | Absent
    assumed: bool = False


@dataclass
class Life:
    """One process of one rank.

    `made_before` is the optimizer's own count at the process's start, None where it has none or it cannot be read
    without waiting for a device. `loaded` are the marks of checkpoint files, `loads` how often something was loaded
    before the first step; None where that was not told. `saves` are (mark or "", step of this process).
    """

    started: float = 0.0
    steps: int = 0
    made_before: int | None = None
    loads: int | None = None
    loaded: list[str] = field(default_factory=list)
    saves: list[list[str | int]] = field(default_factory=list)

    def saved(self, mark: str, step: int) -> None:
        """A checkpoint was saved after so many steps of this process."""
        self.saves.append([mark, step])
        if len(self.saves) > MOST_SAVES:
            del self.saves[0]


@dataclass
class Lives:
    """The processes of one rank, by part of the run and process id."""

    by_process: dict[str, Life] = field(default_factory=dict)

    def of(self, key: str) -> tuple[Life, bool]:
        """Give the life of a process, and whether it is new; one too many shares the last one's."""
        known = self.by_process.get(key)
        if known is not None:
            return known, False
        life = Life()
        if len(self.by_process) <= MOST_LIVES:
            self.by_process[key] = life
        return life, True

    def in_order(self) -> list[Life]:
        """As they were started, where that is told, else as they were met."""
        return sorted(self.by_process.values(), key=lambda life: life.started)


def lost_steps(ranks: Iterable[Lives]) -> Lost:
    """The steps that all restarts threw away; of several ranks the one that lost most."""
    each = [lives.in_order() for lives in ranks]
    generations = max((len(lives) for lives in each), default=0)
    if generations <= 1:
        return Lost(0)
    if generations > MOST_LIVES:
        return Lost(_TOO_MANY)
    points = _Points()
    origins: list[int | None] = [0] * len(each)
    lost: list[Lost] = [Lost(0)] * len(each)
    for generation in range(generations):
        for at, lives in enumerate(each):
            if generation and generation < len(lives):
                origin, assumed = points.resumed(lives, generation, origins[at])
                lost[at] = _more(lost[at], lives[generation - 1], origins[at], origin, assumed)
                origins[at] = origin
        for at, lives in enumerate(each):
            if generation < len(lives):
                points.saved(lives[generation], origins[at])
    known = [one for one in lost if not isinstance(one.steps, Absent)]
    return max(known, key=lambda one: (one.steps, one.assumed)) if known else lost[0]


def _more(so_far: Lost, before: Life, began: int | None, resumed: int | None, assumed: bool) -> Lost:
    if began is None or resumed is None or isinstance(so_far.steps, Absent):
        return Lost(_NOT_TOLD)
    return Lost(so_far.steps + max(0, began + before.steps - resumed), so_far.assumed or assumed)


class _Points:
    """The saves so far as points of the run's line."""

    def __init__(self) -> None:
        self._by_mark: dict[str, int] = {}
        self._last: int | None = None
        self._last_without_file: int | None = None

    def saved(self, life: Life, origin: int | None) -> None:
        if origin is None:
            return
        for mark, step in life.saves:
            point = origin + int(step)
            if mark:
                self._by_mark[str(mark)] = self._last = point
            else:
                self._last_without_file = point

    def resumed(self, lives: list[Life], generation: int, began: int | None) -> tuple[int | None, bool]:
        """Give the point from which a process went on, and whether that is an assumption."""
        life, first = lives[generation], lives[0]
        if began is None:
            return None, False
        end = began + lives[generation - 1].steps
        if life.made_before and first.made_before is not None:
            point = life.made_before - first.made_before
            if 0 <= point <= end:
                return point, False
        of_files = [self._by_mark[mark] for mark in life.loaded if mark in self._by_mark]
        if of_files:
            return min(of_files[-1], end), False
        if life.made_before == 0 and life.loads == 0:
            return 0, False
        last = self._last if self._last is not None else self._last_without_file
        return (None, False) if last is None else (min(last, end), True)
