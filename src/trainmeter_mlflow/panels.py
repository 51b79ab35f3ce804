"""What MLflow shows of a run beside its metrics: tags, description, artifacts, and the experiment's charts; pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Mapping, Sequence

from trainmeter_core.passport.markdown import escape, figure, render
from trainmeter_core.passport.panel import panel
from trainmeter_core.series import LADDER_RUNGS, PREFIX, TIME_KINDS
from trainmeter_core.version import __version__

_START = "<!-- trainmeter -->"
_END = "<!-- /trainmeter -->"
_BLOCK = re.compile(r"\n*" + re.escape(_START) + r".*?" + re.escape(_END) + r"\n*", re.DOTALL)

# MLflow cuts a longer tag off without a word; older servers do at 5000.
LONGEST_NOTE = 5000
LONGEST_TAG = 500

_CONVENTIONS = ("torchtitan", "hf", "megatron", "nanochat", "nanogpt", "palm", "kaplan", "chinchilla", "exact")

# Tags by series: the whole run's number where a passport has it, else the newest window's.
_OF_THE_RUN = {
    "step": "data.steps",
    "tokens": "data.tokens",
    "mfu_pct": "efficiency.mfu_pct",
    "hfu_pct": "efficiency.hfu_pct",
    "tokens_per_s": "efficiency.tokens_per_s",
    "step_time_s": "efficiency.step_time_s",
}

# Section, kind of chart, series without prefix. A chart of several series has no title but its section's.
CHARTS: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("trainmeter: utilization ladder", "LINE", tuple("ladder/" + rung for rung in LADDER_RUNGS)),
    ("trainmeter: where the time goes", "LINE", tuple("time/" + kind for kind in TIME_KINDS)),
    ("trainmeter: MFU by run, and speed", "BAR", ("mfu_pct",)),
    ("trainmeter: MFU by run, and speed", "LINE", ("tokens_per_s",)),
    ("trainmeter: MFU by run, and speed", "LINE", ("step_time_s",)),
    ("trainmeter: MFU by convention", "LINE", tuple("mfu/" + name for name in _CONVENTIONS)),
)


def tags(values: Mapping[str, float], passport: Mapping[str, Any] | None) -> dict[str, str]:
    """The run's tags: what one filters and sorts runs by. A value not known has no tag.

    `values` is the newest row; `passport` the whole run's, where one was just made.
    """
    told: dict[str, str] = {"trainmeter.version": __version__}
    for name, path in _OF_THE_RUN.items():
        value = _known(passport, path, values.get(PREFIX + name))
        if name in ("step", "tokens"):
            # Of a resumed run the series count all processes, a passport its own.
            value = values.get(PREFIX + name, value)
        if value is not None:
            told["trainmeter." + name] = _number(value)
    if passport is not None:
        options = passport["options"]
        told["trainmeter.convention"] = str(options["convention"])
        if options["peak_tflops"] is not None:
            told["trainmeter.peak_tflops"] = _number(options["peak_tflops"]["value"])
            told["trainmeter.peak_source"] = str(options["peak_source"] or "")
        run_id = passport["identity"]["run_id"]
        if run_id:
            told["trainmeter.run_id"] = str(run_id)
        parameters = passport["model"]["parameters_total"]
        if parameters is not None:
            told["trainmeter.parameters"] = _number(parameters["value"])
    return {name: value[:LONGEST_TAG] for name, value in told.items()}


def headline(values: Mapping[str, float], passport: Mapping[str, Any]) -> str:
    """Three lines for the run's description, which MLflow folds up after about as many."""
    options = passport["options"]
    convention = escape(str(options["convention"]))
    mfu = _known(passport, "efficiency.mfu_pct", values.get(PREFIX + "mfu_pct"))
    peak = options["peak_tflops"]
    if mfu is None or peak is None:
        first = "MFU n/a: " + escape(_why(passport, "efficiency.mfu_pct"))
    else:
        source = "given by the user" if options["peak_source"] == "user" else str(options["peak_source"] or "")
        first = f"MFU **{mfu:.3g} %** ({convention}; peak {peak['value']:g} TFLOP/s, {escape(source)})"
    counted = (
        ("data.steps", "steps"),
        ("data.tokens", "tokens"),
        ("compute.flops." + str(options["convention"]), "FLOPs"),
        ("efficiency.tokens_per_s", "tokens/s"),
    )
    counts = [figure(known, unit) for path, unit in counted for known in [_known(passport, path)] if known is not None]
    shares = sorted(((_known(passport, "time.shares." + kind) or 0.0, kind) for kind in TIME_KINDS), reverse=True)
    spent = ", ".join(f"{kind.replace('_', ' ')} {share:.3g} %" for share, kind in shares[:4] if share > 0)
    third = ("time: " + spent + " · " if spent else "") + "more in Artifacts, trainmeter/panel.html"
    return "\n".join(("trainmeter: " + first + "  ", " · ".join(counts) + "  ", third))


def note(theirs: str, ours: str) -> str | None:
    """The description with our lines after the user's text, in place of ours of before.

    None when it needs no change, or when the user's text would no longer be whole.
    """
    kept = without_note(theirs)
    block = _START + "\n" + ours + "\n" + _END
    whole = (kept.rstrip("\n") + "\n\n" if kept.strip() else "") + block
    return None if whole == theirs or len(whole) > LONGEST_NOTE else whole


def without_note(theirs: str) -> str:
    """The description without our lines."""
    return _BLOCK.sub("\n\n", theirs).strip("\n") if _START in theirs else theirs


def files(values: Mapping[str, float], passport: Mapping[str, Any]) -> dict[str, str]:
    """The artifacts, by name."""
    return {
        "panel.html": panel(passport, values),
        "passport.md": render(dict(passport)),
        "passport.json": json.dumps(passport, indent=1, allow_nan=False) + "\n",
    }


def shared_view() -> str:
    """The charts of an experiment's runs, as the interface keeps a view that was shared by its address.

    The charts of a section share its whole width.
    """
    charts = Counter(section for section, _kind, _names in CHARTS)
    return json.dumps(
        {
            "compareRunSections": [
                {"uuid": name, "name": name, "display": True, "isReordered": True, "columns": count}
                for name, count in charts.items()
            ],
            "compareRunCharts": [_chart(*chart) for chart in CHARTS],
            "isAccordionReordered": True,
            "hideEmptyCharts": True,
        },
        separators=(",", ":"),
    )


def _chart(section: str, kind: str, names: Sequence[str]) -> dict[str, Any]:
    keys: list[str] = [PREFIX + name for name in names]
    chart: dict[str, Any] = {
        "uuid": "trainmeter-" + kind.lower() + "-" + names[0].replace("/", "-"),
        "type": kind,
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": 10,
        "displayName": names[0],
        "metricKey": keys[0],
    }
    if kind == "LINE":
        chart.update(
            {
                "selectedMetricKeys": keys,
                "xAxisKey": "step",
                "selectedXAxisMetricKey": "",
                "xAxisScaleType": "linear",
                "scaleType": "linear",
                "lineSmoothness": 0,
                "range": {},
                "yAxisKey": "metric",
                "yAxisExpressions": [],
                "ignoreOutliers": False,
                "useGlobalXaxisKey": True,
                "useGlobalLineSmoothing": True,
            }
        )
    return chart


def _known(passport: Mapping[str, Any] | None, path: str, otherwise: float | None = None) -> float | None:
    """A passport's number by its path; `otherwise` where there is none."""
    here: Any = passport
    for name in path.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return otherwise if here is None else here["value"]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else format(value, ".6g")


def _why(passport: Mapping[str, Any], field: str) -> str:
    return next((str(gap["reason"]) for gap in passport["gaps"] if gap["field"] == field), "not known yet")
