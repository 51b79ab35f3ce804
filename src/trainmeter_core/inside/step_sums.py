"""What the steps of this process add up to: running sums, of which any two states give what lies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch_shape import Shape

MYPY = False
if MYPY:
    from typing import Tuple

    Counts = Tuple[int, int, int, int, int]


class Batches:
    """Micro-batches by shape. Steps mostly resemble each other: such a one costs a comparison."""

    __slots__ = ("_earlier", "_usual", "_usual_counts", "_usual_steps")

    def __init__(self) -> None:
        self._earlier: dict[Shape, int] = {}
        self._usual: dict[Shape, int] = {}
        self._usual_counts: Counts = (0, 0, 0, 0, 0)
        self._usual_steps = 0

    def add(self, step: dict[Shape, int]) -> Counts:
        """Add a step's batches, which stay the caller's; give its tokens, samples, micro-batches and lengths."""
        if step != self._usual:
            self._earlier = self.total()
            self._usual = dict(step)
            self._usual_counts = _counts(step)
            self._usual_steps = 0
        self._usual_steps += 1
        return self._usual_counts

    def total(self) -> dict[Shape, int]:
        """Give all that was added."""
        total = dict(self._earlier)
        for shape, calls in self._usual.items():
            total[shape] = total.get(shape, 0) + calls * self._usual_steps
        return total


def _counts(batches: dict[Shape, int]) -> Counts:
    tokens = samples = micro = length = target = 0
    for (sequences, length, target), calls in batches.items():  # noqa: B007 - the last one's are the record's
        samples += sequences * calls
        tokens += sequences * length * calls
        micro += calls
    return tokens, samples, micro, length, target


class Sums:
    """The sums at the end of one step, or what lies between two such ends."""

    __slots__ = ("batches", "end", "seconds", "skipped", "steps", "unseen")

    def __init__(  # noqa: PLR0917 - the sums
        self, steps: int, skipped: int, end: float, seconds: list[float], batches: dict[Shape, int], unseen: int = 0
    ) -> None:
        self.steps = steps
        self.skipped = skipped
        self.end = end
        """Seconds on the monotonic clock; of a difference, the seconds between."""
        self.seconds = seconds
        """By kind, in the order of `series.TIME_KINDS`."""
        self.batches = batches
        self.unseen = unseen
        """Steps whose batches were not seen."""

    def since(self, earlier: Sums) -> Sums:
        """Give what came after an earlier state."""
        before = earlier.batches
        more = ((shape, calls - before.get(shape, 0)) for shape, calls in self.batches.items())
        return Sums(
            self.steps - earlier.steps,
            self.skipped - earlier.skipped,
            self.end - earlier.end,
            [now - then for now, then in zip(self.seconds, earlier.seconds)],
            {shape: calls for shape, calls in more if calls},
            self.unseen - earlier.unseen,
        )

    def and_then(self, more: Sums) -> Sums:
        """Give the sums of this and of what came after it."""
        batches = dict(self.batches)
        for shape, calls in more.batches.items():
            batches[shape] = batches.get(shape, 0) + calls
        seconds = [a + b for a, b in zip(self.seconds, more.seconds)]
        return Sums(
            self.steps + more.steps, self.skipped + more.skipped, self.end + more.end, seconds, batches,
            self.unseen + more.unseen,
        )  # fmt: skip
