"""Compares what a program printed, line by line and word by word, so that a clock in one line hides no other; pure."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

from .judge import DIFFERS, NOISE, SAME, Row, change, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# Lines, and what a progress bar writes over.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_WORD = re.compile(rb"\s+|\S+")
_NUMBER = re.compile(rb"\d+")


def without(printed: bytes, said: Sequence[bytes]) -> bytes:
    """What was printed without tm's own lines: exactly those that tm noted down when it said them, each once, in order.

    A program's line that only looks like one of tm's stays.
    """
    kept, at = [], 0
    for line in said:
        found = printed.find(line, at)
        if found >= 0:
            kept.append(printed[at:found])
            at = found + len(line)
    return b"".join((*kept, printed[at:]))


def judge_text(what: str, bare: Sequence[bytes], measured: bytes) -> Row:
    """Judge one stream of a program's."""
    if all(each == measured for each in bare):
        return Row(what, SAME, f"{len(measured):,} bytes")
    lines = [_LINE.findall(each) for each in bare]
    ours = _LINE.findall(measured)
    if len({len(each) for each in lines}) > 1:
        return _judge_shapes(what, lines, ours)
    if len(ours) != len(lines[0]):
        return Row(what, DIFFERS, _first_change(lines[0], ours))
    noisy = 0
    for number, (mine, *theirs) in enumerate(zip(ours, *lines), 1):
        state, detail = _judge_line(theirs, mine)
        if state == DIFFERS:
            return Row(what, DIFFERS, f"line {number}: {detail}")
        noisy += state == NOISE
    return (
        Row(what, NOISE, f"{noisy} of {len(ours) - 1} lines differ between the bare runs too")
        if noisy
        else Row(what, SAME)
    )


def _first_change(before: Sequence[bytes], after: Sequence[bytes]) -> str:
    for number, (one, other) in enumerate(zip_longest(before, after, fillvalue=b""), 1):
        if one != other:
            return f"line {number}: {change(one, other, _shown)}"
    return ""


def _judge_line(bare: Sequence[bytes], measured: bytes) -> tuple[str, str]:
    state = state_of(bare, measured)
    if state != NOISE:
        return state, change(bare[0], measured, show=_shown)
    words = [_WORD.findall(each) for each in bare]
    ours = _WORD.findall(measured)
    if len({len(each) for each in (*words, ours)}) > 1:
        return NOISE, ""
    for mine, *theirs in zip(ours, *words):
        if state_of(theirs, mine) == DIFFERS:
            return DIFFERS, change(theirs[0], mine, show=_shown)
    return NOISE, ""


def _judge_shapes(what: str, bare: Sequence[Sequence[bytes]], measured: Sequence[bytes]) -> Row:
    """The bare runs differ in how many lines they print: a line is then known by what it is without its numbers."""
    known = {_NUMBER.sub(b"0", line) for lines in bare for line in lines}
    strange = next((line for line in measured if _NUMBER.sub(b"0", line) not in known), None)
    if strange is not None:
        return Row(what, DIFFERS, f"only under tm: {_shown(strange)}")
    common = set.intersection(*({_NUMBER.sub(b"0", line) for line in lines} for lines in bare))
    lost = next(iter(sorted(common - {_NUMBER.sub(b"0", line) for line in measured})), None)
    if lost is not None:
        return Row(what, DIFFERS, f"only in the bare runs: {_shown(lost)}")
    return Row(what, NOISE, "the number of lines differs between the bare runs too")


def _shown(line: bytes) -> str:
    return repr(line.decode("utf-8", "replace"))
