"""What a test goes on with: a value that is absent fails the test here, with its reason, and not three lines later."""

from __future__ import annotations

from typing import TypeVar

from trainmeter_core.readings import Absent

T = TypeVar("T")


def known(value: T | Absent | None) -> T:
    """The value itself, which is there."""
    assert value is not None
    assert not isinstance(value, Absent), value.reason
    return value
