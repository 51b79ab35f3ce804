"""The steps that ended: their records in the ring, and what they add up to."""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING

from ..ring_format import (
    FLAG_BATCH_UNSEEN,
    FLAG_MIXED_SHAPES,
    FLAG_SKIPPED,
    FLAG_STARTUP,
    SECONDS_WRITTEN,
    STEP_RECORD,
    TAIL_RECORD,
)
from .guard import site
from .same_batches import whole_sequences
from .step_sums import Batches, Sums

if TYPE_CHECKING:
    from .batch_shape import Shape
    from .ring import Ring
    from .step_under_way import StepUnderWay

MYPY = False
if MYPY:
    from typing import Sequence, Tuple

    Seconds = Tuple[float, ...]

_STEP = site("optimizer step")


class EndedSteps:
    """Running sums. Usual steps, which the taps only note, are added when somebody asks, or after a few of them."""

    def __init__(self, step: StepUnderWay, start: float) -> None:
        self._step = step
        self._writing = allocate_lock()
        self.ring: Ring | None = None
        self.batches_of_another = False
        """Whether another rank is given the same batches and counts them."""
        self.batch_ranks = self.sequence_parts = 1
        """Ranks that work on one batch together, and those of them among which each of its sequences is split."""
        self._steps = 0
        self.skipped = 0
        self.unseen = 0
        """Steps in which a backward ran and no batch was seen."""
        self._tokens = 0
        self._samples = 0
        self.last_end = start
        self._used = Batches()
        self.seconds: Seconds = tuple(step.seconds)
        """The clock's seconds by kind at the end of the last step."""
        self.startup: Sums | None = None
        """The sums at the end of the first step."""
        self.shortest = float("inf")
        self.longest = 0.0
        """Seconds of the shortest and the longest step after the first."""

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Optimizer steps. The noted ones are among them without being added: log calls ask after every step."""
        return self._step.number

    @property
    def tokens(self) -> int:
        """Tokens that this rank was trained on."""
        self.catch_up()
        return self._tokens

    @property
    def samples(self) -> int:
        """Samples that this rank was trained on."""
        self.catch_up()
        return self._samples

    @property
    def used(self) -> Batches:
        """Micro-batches."""
        self.catch_up()
        return self._used

    def sums(self) -> Sums:
        """The sums at the end of the last step, as they are now."""
        self.catch_up()
        return Sums(
            self._steps, self.skipped, self.last_end, list(self.seconds), self._used.total(), self.unseen
        )  # fmt: skip

    # --- adding -------------------------------------------------------------------------------------------------

    def catch_up(self, wait_s: float = 0.0) -> None:
        """Add the usual steps that the taps noted. Where another thread does just that, it is left to it."""
        step = self._step
        if not step.unwritten or not self._writing.acquire(wait_s > 0, wait_s or -1):
            return
        try:
            noted = step.unwritten
            batches = {} if step.shape is None else {step.shape: step.usual_calls}
            for _ in range(len(noted)):
                self._add(*noted.pop(0), 0, batches, backwards=True)
        finally:
            self._writing.release()

    def add(self, now: float, seconds: Seconds, flags: int, batches: dict[Shape, int]) -> tuple[int, Sums]:
        """Add the step that is under way, which ended at `now`; give its flags, and what it adds to the sums."""
        self.catch_up(wait_s=1.0)
        if self.batches_of_another:
            batches.clear()
        elif self.sequence_parts > 1:
            whole_sequences(batches, self.sequence_parts)
        before, began = self.seconds, self.last_end
        ran = self._step.backwards != self._step.backwards_at_end
        flags = self._add(now, seconds, flags, batches, backwards=ran)
        self._step.number = self._steps
        skipped = int(flags & FLAG_SKIPPED > 0)
        of_step = [upto - then for upto, then in zip(seconds, before)]
        unseen = int(flags & FLAG_BATCH_UNSEEN > 0)
        if self.startup is None:
            self.startup = self.sums()
        return flags, Sums(1 - skipped, skipped, now - began, of_step, dict(batches), unseen)

    def _add(self, now: float, seconds: Seconds, flags: int, batches: dict[Shape, int], *, backwards: bool) -> int:
        if flags & FLAG_SKIPPED:
            self.skipped += 1
        else:
            self._steps += 1
        tokens, samples, micro, length, target = self._used.add(batches)
        self._tokens += tokens
        self._samples += samples
        if not micro and backwards and not self.batches_of_another:
            # Without a backward no batch was used.
            flags |= FLAG_BATCH_UNSEEN
            self.unseen += 1
        wall_s = now - self.last_end
        if len(batches) > 1:
            flags |= FLAG_MIXED_SHAPES
            if self.ring is not None:
                self.ring.shapes(self._steps, batches)
        self._record(STEP_RECORD, flags, micro, (tokens, samples, length, target), now, seconds)
        self.seconds, self.last_end = seconds, now
        if not flags & FLAG_STARTUP and (wall_s > self.longest or wall_s < self.shortest):
            self.longest = max(self.longest, wall_s)
            self.shortest = min(self.shortest, wall_s)
        return flags

    def add_tail(self, now: float) -> None:
        """Record the time from the last step to the process's end."""
        self._record(TAIL_RECORD, 0, 0, (0, 0, 0, 0), now, self._step.until(now))

    def _record(  # noqa: PLR0917 - the fields of the record
        self, kind: int, flags: int, micro_batches: int, counts: tuple[int, int, int, int], now: float,
        seconds: Sequence[float],
    ) -> None:  # fmt: skip
        before = self.seconds
        if self.ring is not None:
            self.ring.step(
                kind, flags | self._step.loader_flag, micro_batches, self._steps, now, *counts,
                (now - self.last_end, seconds[0] - before[0], seconds[1] - before[1], seconds[2] - before[2],
                 seconds[3] - before[3], seconds[4] - before[4]),
                (self._steps, self.skipped, self._tokens, self._samples, _STEP.count),
            )  # fmt: skip
            for place, spent in enumerate(seconds[:5], SECONDS_WRITTEN):
                self._step.page[place] = spent
