"""The step that is under way, as the taps see it: all that a usual step reads and writes, in one small object."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ..ring_format import ENDED, ENDED_AT, MOST_UNWRITTEN, PHASE, SECONDS_NOW
from .span_clock import OTHER, SpanClock

if TYPE_CHECKING:
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Tuple

    Ended = Tuple[float, Tuple[float, ...]]

# A step's record costs several times what the rest does, nearly all of it memory that the user's program has pushed out
# of the caches meanwhile. So records are written MOST_UNWRITTEN at a time, but never later than this.
LATEST_S = 0.5

UNUSUAL, USUAL, RECORDS_DUE = range(3)


class StepUnderWay(SpanClock):
    """What the taps know of the step, beside what its time goes to.

    A step is usual when it is like the one before: one optimizer, the same number of micro-batches of one shape. Then
    the taps do all there is to do by themselves; in any other case they ask the agent.
    """

    __slots__ = (
        "backwards", "backwards_at_end", "backwards_at_enter", "backwards_at_event", "batches", "calls", "in_backward",
        "in_model", "in_optimizer", "leader", "loader_flag", "number", "optimizer", "optimizer_events", "pending",
        "shape", "unwritten", "usual_calls", "waiting", "written_at",
    )  # fmt: skip

    def start_anew(self, start: float) -> None:
        """Forget everything: a new process."""
        super().start_anew(start)
        self.in_model = False
        self.in_backward = False
        """Whether some thread runs a backward now."""
        self.loader_flag = 0
        """FLAG_LOADER_SEEN once a data loader was asked for a batch."""

        self.shape: Shape | None = None
        """Of a micro-batch of the last step."""
        self.waiting = 0
        """Training forwards of that shape whose backward has not run yet;"""
        self.calls = 0
        """those whose backward has run: micro-batches."""
        self.pending: list[Shape] = []
        """Shapes of other forwards that wait."""
        self.batches: dict[Shape, int] = {}
        """Micro-batches of other shapes."""
        self.backwards = 0
        """Since the start of the process; and of them, those before"""
        self.backwards_at_event = 0
        """the last optimizer stepped,"""
        self.backwards_at_end = 0
        """the last step ended,"""
        self.backwards_at_enter = 0
        """and the outermost optimizer entered."""

        self.in_optimizer = 0
        """How deep in optimizers' steps."""
        self.optimizer = 0
        """The id of the outermost of them, or of the last one."""
        self.optimizer_events = 0

        self.leader = 0
        """The id of the optimizer whose next step may be a usual one; 0: the agent has to look at it. As long as it is
        set, every forward of this step is of the usual shape."""
        self.usual_calls = 0
        self.number = 0
        """Of the last step that ended."""
        self.unwritten: list[Ended] = []
        """Usual steps that have no record yet: end and the clock's seconds."""
        self.written_at = start

    def other_forward(self, shape: Shape) -> None:
        """A training forward in a step that is not a usual one, or not any more."""
        self.leader = 0
        self.all_pending().append(shape)

    def all_pending(self) -> list[Shape]:
        """Give the shapes of the forwards that wait; from now on the step has them there."""
        if self.waiting and self.shape is not None:
            self.pending += [self.shape] * self.waiting
        self.waiting = 0
        return self.pending

    def forward_raised(self, shape: Shape) -> None:
        """Take a forward back: out of memory, most likely. Its batch was not used."""
        if self.pending and self.pending[-1] is shape:
            self.pending.pop()
        elif self.waiting and self.shape is shape:
            self.waiting -= 1

    def all_batches(self) -> dict[Shape, int]:
        """Give the micro-batches by shape; from now on the step has them there."""
        if self.calls and self.shape is not None:
            self.batches[self.shape] = self.batches.get(self.shape, 0) + self.calls
        self.calls = 0
        return self.batches

    def ends_as_usual(self, optimizer: int) -> int:
        """End the step that this optimizer has made, if it was a usual one, and say whether that was so.

        What `Agent.optimizer_leaves` comes to when nothing is new.
        """
        if (
            self.leader != optimizer
            or self.in_optimizer != 1
            or self.backwards == self.backwards_at_event
            or self.calls != self.usual_calls
            or self.waiting
        ):
            return UNUSUAL
        now = monotonic()
        current, seconds, page = self.current, self.seconds, self.page
        seconds[current] += now - self.last
        self.last = now
        if current == self.base:
            self.current = page[PHASE] = OTHER
        self.base = OTHER
        self.in_optimizer = self.calls = 0
        self.backwards_at_event = self.backwards_at_end = self.backwards
        self.optimizer_events += 1
        unwritten = self.unwritten
        unwritten.append((now, (*seconds,)))
        page[SECONDS_NOW] = seconds[0]
        page[SECONDS_NOW + 1] = seconds[1]
        page[SECONDS_NOW + 2] = seconds[2]
        page[SECONDS_NOW + 3] = seconds[3]
        page[SECONDS_NOW + 4] = seconds[4]
        page[ENDED_AT] = now
        self.number = number = self.number + 1
        page[ENDED] = number
        if len(unwritten) < MOST_UNWRITTEN and now - self.written_at < LATEST_S:
            return USUAL
        self.written_at = now
        return RECORDS_DUE
