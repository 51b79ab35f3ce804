"""JSON that comes from elsewhere, a file or another process: whatever it is, ValueError is all that it raises."""

from __future__ import annotations

import json
import math

MYPY = False
if MYPY:
    from typing import Any, Union

    Text = Union[str, bytes]


def parse(text: Text, *, finite: bool = False) -> Any:
    """Give the value. Raises ValueError for what is no JSON, no UTF-8, or nested too deeply to be read.

    With ``finite`` also for NaN, infinities, and numbers that are too large for a float.
    """
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refuse) if finite else json.loads(text)
    except RecursionError as error:  # thousands of brackets
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text[:20] + "… is too large a number")
    return number


def _refuse(constant: str) -> Any:
    raise ValueError(constant + " is not a number")
