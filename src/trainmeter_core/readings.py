"""A reading is a value in its unit, or an `Absent` with the reason; never 0, inf or a guess for "unknown"."""

from __future__ import annotations

from typing import Union


class Absent:
    """A value that is not known, and why; falsy, equal by reason, and never a number."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent) and other.reason == self.reason

    def __hash__(self) -> int:
        return hash((Absent, self.reason))

    def __repr__(self) -> str:
        return "Absent(" + repr(self.reason) + ")"

    def __str__(self) -> str:
        return "n/a: " + self.reason


Reading = Union[float, int, Absent]


def present(value: Reading) -> bool:
    """True for a number, also for 0 and 0.0; False for an `Absent`."""
    return not isinstance(value, Absent)
