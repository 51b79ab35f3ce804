"""The charts and tables of the closing row, as plain columns and rows; pure. A panel without values does not exist."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from trainmeter_core.series import PREFIX

from .summary import found, numbers_in

LADDER = PREFIX + "utilization_ladder"
TIME = PREFIX + "where_the_time_goes"
MFU = PREFIX + "mfu_by_convention"
PASSPORT = PREFIX + "passport"


class Panel(NamedTuple):
    """A table, drawn as bars of its second column over its first where it has a title."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


def panels(passport: Mapping[str, Any] | None, summary: Mapping[str, float]) -> list[Panel]:
    """Give the panels for which there is something to show. `summary` holds series by name with prefix."""
    mfu = (
        Panel(MFU, "", ("convention", "mfu_pct"), [[name, value] for name, value in family(summary, "mfu/")])
        if passport is None
        else _mfu(passport)
    )
    ladder = [[name.partition("_")[2], value] for name, value in family(summary, "ladder/")]
    shares = [[name, value] for name, value in family(summary, "time/")]
    every = (
        Panel(LADDER, "Utilization ladder (%)", ("rung", "percent"), ladder),
        Panel(TIME, "Where the time goes (% of wall time)", ("kind", "percent"), shares),
        mfu,
    )
    return [panel for panel in every if panel.rows]


def family(series: Mapping[str, float], prefix: str) -> list[tuple[str, float]]:
    """The members of a family of series, by the rest of their names, in the order of names."""
    start = PREFIX + prefix
    return sorted((name[len(start) :], value) for name, value in series.items() if name.startswith(start))


def _mfu(passport: Mapping[str, Any]) -> Panel:
    columns = ("convention", "mfu_pct", "flops_per_token", "flops", "peak_tflops", "peak_source", "headline")
    headline = str(passport["compute"]["convention"])
    peak, source = found(passport, "options.peak_tflops"), found(passport, "options.peak_source")
    mfu = dict(numbers_in(passport, "efficiency.mfu"))
    per_token = dict(numbers_in(passport, "compute.flops_per_token"))
    rows = [
        [name, mfu.get(name), per_token.get(name), float(flops), peak, source, name == headline]
        for name, flops in numbers_in(passport, "compute.flops")
    ]
    rows.sort(key=lambda row: (not row[-1], row[0]))
    return Panel(MFU, "", columns, rows)
