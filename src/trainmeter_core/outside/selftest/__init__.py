"""One command bare, under tm, and bare again, and what differs: tm's promise to change nothing, put to the test."""

from .judge import DIFFERS, NOISE, SAME, Row
from .outcome import Outcome
from .runs import Performance, as_json, perform
from .verdict import rows

__all__ = ["DIFFERS", "NOISE", "SAME", "Outcome", "Performance", "Row", "as_json", "perform", "rows"]
