"""Writes the values of a passport: a number with unit and source, or null with the reason among the gaps."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Union

from trainmeter_core.readings import Absent

MEASURED = "measured"
COUNTED = "counted"
FORMULA = "formula"
USER = "user"
ASSUMED = "assumed"
SOURCES = (MEASURED, COUNTED, FORMULA, USER, ASSUMED)

Json = Dict[str, Any]
Value = Union[int, float, Absent]


class Sheet:
    """Collects the gaps of one passport while its sections are written."""

    def __init__(self) -> None:
        self.gaps: list[dict[str, str]] = []

    def number(self, field: str, value: Value, unit: str, source: str) -> Json | None:
        """A number as {value, unit, source}; None, and a gap, when it is Absent or not finite."""
        if isinstance(value, Absent):
            return self.gap(field, value.reason)
        if isinstance(value, float) and not math.isfinite(value):
            return self.gap(field, "not finite")
        return {"value": value, "unit": unit, "source": source}

    def text(self, field: str, value: Any) -> Any:
        """A text, flag or list as it is; None, and a gap, when it is Absent."""
        return self.gap(field, value.reason) if isinstance(value, Absent) else value

    def gap(self, field: str, reason: str) -> Json | None:
        """Note that a field is not known, and why; gives the None that stands in its place."""
        self.gaps.append({"field": field, "reason": reason})
        return None

    def numbers(self, field: str, values: Mapping[str, Value], unit: str, source: str) -> Json:
        """A table of numbers of one unit and source, by name."""
        return {name: self.number(field + "." + name, value, unit, source) for name, value in values.items()}


def reading(passport: Json, field: str) -> Value:
    """The value at a field's path, for a formula; where the passport has null, Absent with its gap's reason.

    Raises KeyError for a path that the passport does not have.
    """
    found: Any = passport
    for name in field.split("."):
        found = found[name]
    if found is not None:
        value: int | float = found["value"]
        return value
    reasons = [gap["reason"] for gap in passport["gaps"] if gap["field"] == field]
    return Absent(reasons[0] if reasons else field + " is not known")


def ratio(above: Value, below: Value, scale: float = 1.0) -> Value:
    """Above x scale / below; Absent when either is, or when there is nothing to divide by."""
    if isinstance(above, Absent):
        return above
    if isinstance(below, Absent):
        return below
    if below <= 0:
        return Absent("nothing to divide by")
    return above * scale / below


def first_absent(*values: Value) -> Absent | None:
    """The first of the values that is Absent."""
    return next((value for value in values if isinstance(value, Absent)), None)
