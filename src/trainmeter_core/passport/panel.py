"""One self-contained HTML page for a tracker that shows files: the passport, and the newest readings of a row."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from trainmeter_core.ladder import Ladder, gaps
from trainmeter_core.readings import Absent
from trainmeter_core.series import LADDER_RUNGS, PREFIX, RUNG_NAMES

from .page import bar, escape, render

_NOT_PUBLISHED = Absent("not published")
_LAST_PART = '<script type="application/json"'


def panel(passport: Mapping[str, Any], newest: Mapping[str, float]) -> str:
    """The page of a passport that was built inside the trainer; every string is escaped.

    There it has no counters of GPU and node: these come from the newest row, names with prefix.
    """
    page = render(passport)
    start, mark, rest = page.partition(_LAST_PART)
    return start + _ladder(passport, newest) + _node(newest) + mark + rest


def _ladder(passport: Mapping[str, Any], newest: Mapping[str, float]) -> str:
    rungs = [newest.get(PREFIX + "ladder/" + rung, _NOT_PUBLISHED) for rung in LADDER_RUNGS]
    drawn = passport["efficiency"]["ladder"]
    if all(isinstance(value, Absent) or drawn.get(rung) is not None for rung, value in zip(LADDER_RUNGS, rungs)):
        return ""
    sentences = {gap.lower: gap.sentence for gap in gaps(Ladder(*rungs))}
    lines = []
    for rung, value in zip(LADDER_RUNGS, rungs):
        if not isinstance(value, Absent):
            lines.append(bar(RUNG_NAMES[rung], value))
            if rung in sentences:
                lines.append("<p>" + escape(sentences[rung]) + "</p>")
    return "<h2>Utilization ladder, newest reading</h2>" + "".join(lines)


def _node(newest: Mapping[str, float]) -> str:
    parts: Iterable[tuple[str, str]] = (("Node", "node/"), ("GPUs", "gpu/"))
    return "".join(_table(title, newest, PREFIX + start) for title, start in parts)


def _table(title: str, newest: Mapping[str, float], start: str) -> str:
    rows = [
        f"<tr><td>{escape(name[len(start) :].replace('/', ' ').replace('_', ' '))}</td><td>{value:,.6g}</td></tr>"
        for name, value in sorted(newest.items())
        if name.startswith(start)
    ]
    return f"<h2>{title}, newest reading</h2><table>{''.join(rows)}</table>" if rows else ""
