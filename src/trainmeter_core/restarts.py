"""Where a run went on after each restart, and how many steps a restart threw away; pure.

A process of a rank follows another one if it began after that one had ended. Those that follow each other are a line:
each but the first is a restart. Processes that are at work at once (a forked child that trains beside its parent) are
in lines of their own.

A line has steps: its first process begins it at 0, and a later one goes on from the point that it resumed from. Steps
beyond that point were made in vain. The point is told, in this order, by

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
START_WITHIN_S = 0.01
"""The kernel tells a process's start in ticks of so many seconds, rounded down."""
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
    before the first step; None where that was not told. `saves` are (mark or "", step of this process). `started`,
    the ends of its first and newest step (`warm`, `stepped`) and that of its newest record (`ended`) are seconds since
    the epoch, 0 where not told; `parent` is the process that made it, `program` the one whose command line it has.
    """

    started: float = 0.0
    steps: int = 0
    made_before: int | None = None
    loads: int | None = None
    loaded: list[str] = field(default_factory=list)
    saves: list[list[str | int]] = field(default_factory=list)
    part: int = 1
    pid: int = 0
    parent: int = 0
    program: int = 0
    warm: float = 0.0
    stepped: float = 0.0
    ended: float = 0.0

    def follows(self, other: Life) -> bool:
        """Whether this process began after another one of its rank had ended, so far as anything tells."""
        if self.part != other.part or not self.started:
            return True
        if self.parent and self.parent == other.pid:  # alive when it made this one, and seldom heard of since
            return False
        return other.ended <= self.started + START_WITHIN_S

    def lasted(self, until: float, steps: int = 0, *, skipped: int = 0, startup: bool = False) -> None:
        """Something of it was recorded up to then: so many steps, or time alone."""
        self.steps += steps
        self.ended = max(self.ended, until)
        if startup:
            self.warm = until
        elif steps or skipped:
            self.stepped = max(self.stepped, until)

    def saved(self, mark: str, step: int) -> None:
        """A checkpoint was saved after so many steps of this process."""
        self.saves.append([mark, step])
        if len(self.saves) > MOST_SAVES:
            del self.saves[0]


@dataclass
class Lives:
    """The processes of one rank, by part of the run and process id."""

    by_process: dict[str, Life] = field(default_factory=dict)
    beyond: str = ""
    """The newest process of which no life is kept."""

    def of(self, part: int, pid: int) -> tuple[Life, bool]:
        """Give the life of a process of a part of the run, and whether it is new; of those too many none is kept."""
        key = f"{part}.{pid}"
        known = self.by_process.get(key)
        if known is not None:
            return known, False
        life = Life(part=part, pid=pid)
        if len(self.by_process) <= MOST_LIVES:
            self.by_process[key] = life
            return life, True
        before, self.beyond = self.beyond, key
        return life, key != before

    def lines(self) -> list[list[Life]]:
        """Those that follow each other, as they were started, where that is told, else as they were met.

        As many lines as there ever were processes at once; one that may follow several follows the last that ended.
        """
        lines: list[list[Life]] = []
        for life in sorted(self.by_process.values(), key=lambda life: (life.part, life.started)):
            ended = [line for line in lines if life.follows(line[-1])]
            if ended:
                max(ended, key=lambda line: (line[-1].part, line[-1].ended)).append(life)
            else:
                lines.append([life])
        return lines

    def restarts(self) -> int:
        """How often a process followed another one, in the line with the most of them."""
        return max((len(line) for line in self.lines()), default=1) - 1

    def shared_s(self) -> float:
        """Seconds after the first step that several processes spent at once, beyond those of one."""
        lives = self.by_process.values()
        steady = sorted((life.warm, life.stepped) for life in lives if 0 < life.warm < life.stepped)
        shared, until = 0.0, 0.0
        for begin, end in steady:
            shared += max(0.0, min(until, end) - begin)
            until = max(until, end)
        return shared


def lost_steps(ranks: Iterable[Lives]) -> Lost:
    """The steps that all restarts threw away; of several ranks, and lines of a rank, the one that lost most."""
    known_ranks = list(ranks)
    if any(len(lives.by_process) > MOST_LIVES for lives in known_ranks):
        return Lost(_TOO_MANY)
    lines = [_Line(line, of_rank) for of_rank in (lives.lines() for lives in known_ranks) for line in of_rank]
    generations = max((len(line.lives) for line in lines), default=0)
    if generations <= 1:
        return Lost(0)
    points = _Points()
    for generation in range(generations):
        there = [line for line in lines if generation < len(line.lives)]
        for line in there if generation else ():
            resumed, assumed = points.resumed(line, generation)
            line.goes_on(generation, resumed, assumed=assumed)
        for line in there:
            points.saved(line.lives[generation], line.origin)
    lost = [line.lost for line in lines if len(line.lives) > 1]
    known = [one for one in lost if not isinstance(one.steps, Absent)]
    return max(known, key=lambda one: (one.steps, one.assumed)) if known else lost[0]


class _Line:
    """Lives that follow each other: where the newest of them began, None where that is not known."""

    def __init__(self, lives: list[Life], of_rank: list[list[Life]]) -> None:
        self.lives = lives
        self.first = of_rank[0][0]
        """The first of the rank: its optimizer's own count of steps is the beginning."""
        self.lost = Lost(0)
        self.origin: int | None = 0
        if lives[0].made_before and self.first.made_before is not None:
            self.origin = max(0, lives[0].made_before - self.first.made_before)
        elif lives[0].parent in {life.pid for line in of_rank for life in line if life.pid}:
            self.origin = None  # it has its parent's steps, however many they were

    def goes_on(self, generation: int, resumed: int | None, *, assumed: bool) -> None:
        """A process went on from a point, or from one that is not known."""
        began, self.origin = self.origin, resumed
        if began is None or resumed is None or isinstance(self.lost.steps, Absent):
            self.lost = Lost(_NOT_TOLD)
            return
        vain = max(0, began + self.lives[generation - 1].steps - resumed)
        self.lost = Lost(self.lost.steps + vain, self.lost.assumed or assumed)


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

    def resumed(self, line: _Line, generation: int) -> tuple[int | None, bool]:
        """Give the point from which a process went on, and whether that is an assumption."""
        life, first, began = line.lives[generation], line.first, line.origin
        if began is None:
            return None, False
        end = began + line.lives[generation - 1].steps
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
