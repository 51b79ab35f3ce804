"""Numbers as people write them: 20B tokens, 1e22 FLOPs, 1.5T."""

from __future__ import annotations

import re
from decimal import Decimal

_SCALE = {
    "": 0, "K": 3, "M": 6, "B": 9, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21,
}  # fmt: skip
_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3}))? ?([a-zA-Z]?)", re.ASCII)
_LARGEST = Decimal(10) ** 60


def positive_number(text: str) -> Decimal:
    """The exact value of `text`, greater than 0: digits (1_000 allowed), an exponent, one decimal suffix.

    Suffixes K M B G T P E Z are powers of 1000, B and G both 1e9; small letters mean the same, so
    `300m` is 300e6 (e alone is not exa).

    >>> positive_number("1.5T") == 1_500_000_000_000
    True

    Raises ValueError with a sentence for the user.
    """
    match = _NUMBER.fullmatch(text.strip())
    # A small e with nothing behind it is a half-typed exponent, not exa.
    scale = _SCALE.get(match[3].upper()) if match and match[3] != "e" else None
    if match is None or scale is None:
        raise ValueError(f"{text!r} is not a number; write 20B, 1.5T, 300e6 or 1e22")
    value = Decimal(f"{match[1].replace('_', '')}e{int(match[2] or 0) + scale}")
    if value <= 0:
        raise ValueError(f"{text!r} is not greater than 0")
    if value > _LARGEST:
        raise ValueError(f"{text!r} is out of range")
    return value


def positive_count(text: str) -> int:
    """`positive_number` for things that are counted.

    >>> positive_count("20B")
    20000000000
    """
    value = positive_number(text)
    if value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)
