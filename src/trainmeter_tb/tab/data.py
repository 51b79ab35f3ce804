"""What the tab shows, read through TensorBoard's data provider, so with every data server and any log directory."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorboard.data.provider import RunTagFilter

from trainmeter_core.json_text import parse
from trainmeter_core.ladder import RUNGS, Ladder, gaps
from trainmeter_core.passport import markdown, schema
from trainmeter_core.readings import Absent
from trainmeter_core.series import LADDER_RUNGS, PREFIX
from trainmeter_tb.events import OWN_PLUGIN, PASSPORT_JSON_TAG, SCALARS_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tensorboard.context import RequestContext
    from tensorboard.data.provider import DataProvider

STEP_TAG = PREFIX + "step"
NODE = PREFIX + "node/"

MOST_RUNS = 12
_POINTS = 600
_LARGEST_PASSPORT = 4 << 20
_CACHED = 64

Json = dict[str, Any]


class Source(NamedTuple):
    """TensorBoard's data provider, and whose data it is asked for."""

    provider: DataProvider
    context: RequestContext
    experiment: str


def watched_runs(source: Source) -> list[Json]:
    """Give the runs that have our series, those with the newest data first."""
    found = source.provider.list_scalars(
        source.context,
        experiment_id=source.experiment,
        plugin_name=SCALARS_PLUGIN,
        run_tag_filter=RunTagFilter(tags=[STEP_TAG]),
    )
    runs = [
        {"name": run, "step": tags[STEP_TAG].max_step, "wall_time": tags[STEP_TAG].max_wall_time}
        for run, tags in found.items()
        if STEP_TAG in tags
    ]
    return sorted(runs, key=lambda run: (-run["wall_time"], run["name"]))


def series_of_runs(source: Source, runs: list[str], *, node: bool) -> dict[str, Json]:
    """Give our series of some runs: by run ``axes`` (steps and times) and ``series`` (tag to axis number and values).

    Series that stand in the same rows share their axis. With `node` the node's own readings alone, else all others.
    """
    listed = source.provider.list_scalars(
        source.context,
        experiment_id=source.experiment,
        plugin_name=SCALARS_PLUGIN,
        run_tag_filter=RunTagFilter(runs=runs),
    )
    tags = {tag for of_run in listed.values() for tag in of_run if _wanted(tag, node)}
    if not tags:
        return {run: {"axes": [], "series": {}} for run in runs}
    data = source.provider.read_scalars(
        source.context,
        experiment_id=source.experiment,
        plugin_name=SCALARS_PLUGIN,
        downsample=_POINTS,
        run_tag_filter=RunTagFilter(runs=runs, tags=sorted(tags)),
    )
    return {run: _columns(data.get(run, {})) for run in runs}


def _wanted(tag: str, node: bool) -> bool:
    return tag.startswith(PREFIX) and tag.startswith(NODE) == node


def _columns(tags: Mapping[str, Iterable[Any]]) -> Json:
    numbers: dict[tuple[tuple[int, float], ...], int] = {}
    axes: list[Json] = []
    series: dict[str, Json] = {}
    for tag in sorted(tags):
        points = [point for point in tags[tag] if math.isfinite(point.value)]
        places = tuple((point.step, point.wall_time) for point in points)
        if places not in numbers:
            numbers[places] = len(axes)
            axes.append({"step": [step for step, _time in places], "time": [time for _step, time in places]})
        series[tag.removeprefix(PREFIX)] = {"axis": numbers[places], "values": [point.value for point in points]}
    return {"axes": axes, "series": series}


def ladder_of(series: Mapping[str, Json]) -> Json:
    """Give the rungs, each by its median over the run, and the sentence for each gap between two of them."""
    values = {rung: _median(series.get("ladder/" + rung)) for rung in LADDER_RUNGS}
    if values["6_mfu"] is None:
        values["6_mfu"] = _median(series.get("mfu_pct"))
    missing = Absent("not published")
    ladder = Ladder(*(missing if value is None else value for value in values.values()))
    known = [rung for rung, value in values.items() if value is not None]
    return {
        "rungs": [{"rung": rung, "value": values[rung], "meaning": dict(RUNGS)[rung]} for rung in known],
        "gaps": [gap._asdict() for gap in gaps(ladder)] if known else [],
    }


def _median(column: Json | None) -> float | None:
    return median(column["values"]) if column and column["values"] else None


class Passports:
    """The newest passport of each run, checked once for each time that it was written."""

    def __init__(self) -> None:
        self._checked: dict[tuple[str, int, float], Json] = {}

    def of_runs(self, source: Source, runs: list[str]) -> dict[str, Json]:
        """Give by run the passport as ``json`` and ``markdown``, or the ``problem`` with it; a run may have none."""
        tensors = source.provider.read_tensors(
            source.context,
            experiment_id=source.experiment,
            plugin_name=OWN_PLUGIN,
            downsample=1,
            run_tag_filter=RunTagFilter(runs=runs, tags=[PASSPORT_JSON_TAG]),
        )
        found = {}
        for run, tags in tensors.items():
            points = list(tags.get(PASSPORT_JSON_TAG, ()))
            if points:
                found[run] = self._checked_once(run, points[-1])
        return found

    def _checked_once(self, run: str, point: Any) -> Json:
        key = (run, point.step, point.wall_time)
        if key not in self._checked:
            while len(self._checked) >= _CACHED:
                self._checked.pop(next(iter(self._checked)))
            self._checked[key] = read_passport(point.numpy)
        return self._checked[key]


def read_passport(tensor: Any) -> Json:
    """Give a passport from the string tensor that holds its JSON, or say what is wrong with it."""
    text = tensor.item() if tensor.size == 1 else b""
    if not isinstance(text, (bytes, str)) or len(text) > _LARGEST_PASSPORT:
        return {"problem": "the passport in this log directory is not text of a sensible size"}
    try:
        passport = parse(text)
    except ValueError:
        return {"problem": "the passport in this log directory is not JSON"}
    problems = schema.problems(passport)
    if problems:
        return {"problem": "the passport in this log directory is not of this version: " + problems[0]}
    return {"json": passport, "markdown": markdown.render(passport)}
