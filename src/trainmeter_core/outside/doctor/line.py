"""One line of `tm doctor`."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["ok", "missing", "problem"]


class Line(NamedTuple):
    """What was looked at, how it is, and what to do about it.

    "missing" is something that a run can do without; "problem" is something that is here and does not work.
    """

    area: str
    name: str
    state: State
    detail: str
    advice: str = ""
