"""Whether something under tm is what it is bare; what bare runs disagree about is the program's own noise; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SAME, NOISE, DIFFERS = "same", "noise", "differs"

_LONGEST = 60
_SHOWN = 3


class Row(NamedTuple):
    """One thing that was compared: what it is, `same`, `noise` or `differs`, and in a few words how."""

    what: str
    state: str
    detail: str = ""


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


def state_of(bare: Sequence[Any], measured: Any) -> str:
    """Judge one value: `bare` are those of the runs without tm, two at least."""
    if any(each != bare[0] for each in bare[1:]):
        return NOISE
    return SAME if measured == bare[0] else DIFFERS


def judge(what: str, bare: Sequence[Any], measured: Any, show: Callable[[Any], str] = repr) -> Row:
    """Judge one value, with both of its sides where it differs."""
    state = state_of(bare, measured)
    if state == DIFFERS:
        return Row(what, state, change(bare[0], measured, show))
    return Row(what, state, "" if state == NOISE else short(show(measured)))


def judge_table(what: str, bare: Sequence[Mapping[str, Any]], measured: Mapping[str, Any], noun: str) -> Row:
    """Judge a table entry by entry. One that is only under tm, or only without, differs too."""
    found: dict[str, list[str]] = {SAME: [], NOISE: [], DIFFERS: []}
    names = sorted({name for table in (*bare, measured) for name in table})
    for name in names:
        values = [table.get(name, ABSENT) for table in bare]
        found[state_of(values, measured.get(name, ABSENT))].append(name)
    if found[DIFFERS]:
        told = [
            f"{name}: {_step_apart(bare[0].get(name, ABSENT), measured.get(name, ABSENT))}" for name in found[DIFFERS]
        ]
        return Row(what, DIFFERS, "; ".join(told[:_SHOWN]) + _more(told))
    same = f"{len(found[SAME])} {noun}"
    if found[NOISE]:
        return Row(what, NOISE, f"{same} the same, {len(found[NOISE])} not: {listed(found[NOISE])}")
    return Row(what, SAME, same)


def change(before: Any, after: Any, show: Callable[[Any], str] = repr) -> str:
    """Say what a value became."""
    return f"{short(show(before))} bare, {short(show(after))} under tm"


def _step_apart(before: Any, after: Any) -> str:
    """A change, of a series only its first point that is another one."""
    if isinstance(before, list) and isinstance(after, list):
        for at, (one, other) in enumerate(zip(before, after)):
            if one != other:
                return f"entry {at + 1}: {change(one, other)}"
        return f"{len(before)} entries bare, {len(after)} under tm"
    return change(before, after)


def listed(names: Sequence[str]) -> str:
    """The first few of some names."""
    return ", ".join(short(name) for name in names[:_SHOWN]) + _more(names)


def short(text: str) -> str:
    """A text of one line, cut where it is long."""
    text = "".join(each if each.isprintable() else "·" for each in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _more(told: Sequence[str]) -> str:
    return f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
