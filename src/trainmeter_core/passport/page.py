"""Renders a passport as one HTML page: no script, no network, light and dark, and every string of the run escaped."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Tuple

from trainmeter_core.json_text import parse
from trainmeter_core.ladder import Ladder, gaps
from trainmeter_core.readings import Absent
from trainmeter_core.series import LADDER_RUNGS, RUNG_NAMES, TIME_KINDS

from .markdown import figure
from .sheet import reading

if TYPE_CHECKING:
    from .sheet import Json

Rows = Iterable[Tuple[str, str]]

DATA_ID = "trainmeter-passport"
MOST_ROWS = 200

_UNITS = {"percent": "%", "seconds": "s", "FLOPs/token": "FLOPs per token", "count": ""}
_SECTIONS = ("identity", "software", "hardware", "options", "model", "data", "steady", "efficiency", "energy", "ends")
_SHOWN_ELSEWHERE = frozenset(
    ("efficiency.mfu", "efficiency.ladder", "model.description", "data.batches", "steady.batches")
)
# Marks that reorder the text around them, and controls.
_STRIPPED: dict[int, str | None] = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F))
_STRIPPED.update(dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127)))
# Bytes of a command line that are no UTF-8 come as half characters, which no file can hold.
_STRIPPED.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5a6478;--line:#dfe3ea;--paper:#fff;--bar:#2f6fde;--rest:#eef1f6}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b5;--line:#323a47;--paper:#14181f;--bar:#6ea0ff;
--rest:#222935}}
*{box-sizing:border-box}body{margin:0;padding:20px;background:var(--paper);color:var(--ink);
font:14px/1.45 system-ui,sans-serif}h1{font-size:20px;margin:0 0 4px}h2{font-size:15px;margin:26px 0 8px}
p{margin:2px 0;color:var(--soft)}.facts{display:flex;flex-wrap:wrap;gap:8px 28px;margin:14px 0}
.facts b{display:block;font-size:18px}.facts span{color:var(--soft)}
.bar{display:grid;grid-template-columns:10em 1fr 6em;gap:10px;align-items:center;margin:3px 0}
.bar i{display:block;height:14px;background:var(--rest);border-radius:3px;overflow:hidden}
.bar i u{display:block;height:100%;background:var(--bar)}.bar b{text-align:right;font-weight:600}
.bar+p{margin:0 0 8px 150px;font-size:12.5px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 12px 3px 0;
border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}th{font-weight:600}
td:first-child{color:var(--soft);width:16em}details{margin-top:14px}summary{cursor:pointer;font-weight:600}
"""


def render(passport: Mapping[str, Any]) -> str:
    """The page of a passport, with the passport itself inside as JSON for `passport_in`."""
    known: Json = dict(passport)
    body = "".join(
        (
            _head(known),
            _ladder(known),
            _bars("Where the time goes", ((kind, reading(known, "time.shares." + kind)) for kind in TIME_KINDS)),
            _mfu(known),
            _losses(known),
            *(_section(known, name) for name in _SECTIONS),
            _gaps(known),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Training passport</title>'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<style>{_STYLE}</style></head><body>{body}<script type="application/json" id="{DATA_ID}">'
        f"{_embedded(known)}</script></body></html>\n"
    )


def passport_in(page: str) -> Json:
    """The passport that a page holds. Raises ValueError when it holds none."""
    mark = f'id="{DATA_ID}">'
    start = page.find(mark)
    end = page.find("</script>", start)
    if start < 0 or end < 0:
        raise ValueError("the page holds no passport")
    passport: Json = parse(page[start + len(mark) : end], finite=True)
    return passport


def escape(text: Any) -> str:
    """Text that stays text in HTML, inside and outside of attributes."""
    return html.escape(str(text).translate(_STRIPPED), quote=True)


def _embedded(passport: Json) -> str:
    text = json.dumps(passport, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _head(passport: Json) -> str:
    identity = passport["identity"]
    name = identity.get("name") or identity["script"] or identity["run_id"] or "run"
    facts = (
        ("trained on", "data.tokens"),
        ("spent", "compute.flops." + str(passport["compute"]["convention"])),
        ("MFU, " + str(passport["compute"]["convention"]), "efficiency.mfu_pct"),
        ("speed", "efficiency.tokens_per_s"),
        ("per step", "efficiency.step_time_s"),
        ("wall time", "time.wall_s"),
        ("GPU energy", "energy.gpu_kwh"),
    )
    shown = "".join(
        f"<div><b>{number(at(passport, path))}</b><span>{escape(label)}</span></div>"
        for label, path in facts
        if at(passport, path) is not None
    )
    told = f"run {escape(identity['run_id'] or 'n/a')}, started {escape(identity['started'] or 'n/a')}"
    return f'<h1>Training passport: {escape(name)}</h1><p>{told}</p><div class="facts">{shown}</div>'


def _ladder(passport: Json) -> str:
    rungs = [(rung, reading(passport, "efficiency.ladder." + rung)) for rung in LADDER_RUNGS]
    sentences = {gap.lower: gap.sentence for gap in gaps(Ladder(*(value for _, value in rungs)))}
    if all(isinstance(value, Absent) for rung, value in rungs if rung != "6_mfu"):
        # With MFU alone there is nothing to compare.
        sentences = {}
    return _bars(
        "Utilization ladder",
        ((RUNG_NAMES[rung], value) for rung, value in rungs),
        {RUNG_NAMES[rung]: sentence for rung, sentence in sentences.items()},
    )


def _bars(title: str, parts: Iterable[tuple[str, Any]], notes: Mapping[str, str] | None = None) -> str:
    drawn = []
    for name, percent in parts:
        if isinstance(percent, Absent):
            continue
        drawn.append(bar(name, percent))
        if notes and name in notes:
            drawn.append(f"<p>{escape(notes[name])}</p>")
    return f"<h2>{escape(title)}</h2>" + "".join(drawn) if drawn else ""


def bar(name: str, percent: float) -> str:
    """One line of a chart: a name, a bar from 0 to 100 percent, and the number."""
    width = min(max(float(percent), 0.0), 100.0)
    return (
        f'<div class="bar"><span>{escape(name.replace("_", " "))}</span>'
        f'<i><u style="width:{width:.2f}%"></u></i><b>{percent:.3g} %</b></div>'
    )


def _mfu(passport: Json) -> str:
    compute, efficiency = passport["compute"], passport["efficiency"]
    rows = [
        (
            name + (" (headline)" if name == compute["convention"] else ""),
            number(efficiency["mfu"].get(name)),
            number(compute["flops_per_token"].get(name)),
            number(flops),
        )
        for name, flops in sorted(compute["flops"].items(), key=lambda each: (each[0] != compute["convention"], each))
        if flops is not None
    ]
    if not rows:
        return ""
    source = passport["options"]["peak_source"]
    said = {"user": "given by the user", None: "source not known"}.get(source, source)
    told = f"<p>Dense peak: {number(passport['options']['peak_tflops'])} ({escape(said)})</p>"
    return "<h2>MFU by convention</h2>" + told + _table(("convention", "MFU", "FLOPs per token", "FLOPs"), rows)


def _losses(passport: Json) -> str:
    rows = [
        (name, *(_logged(loss[which]) for which in ("first", "last", "best")))
        for name, loss in list(passport["losses"].items())[:MOST_ROWS]
    ]
    return "<h2>Losses</h2>" + _table(("name", "first", "last", "best"), rows) if rows else ""


def _logged(logged: Json) -> str:
    value = "n/a" if logged["value"] is None else f"{logged['value']['value']:.6g}"
    return value if logged["step"] is None else f"{value} at step {logged['step']['value']}"


def _section(passport: Json, name: str) -> str:
    rows = list(_flat(passport[name], name))[:MOST_ROWS]
    return f"<details><summary>{escape(name)}</summary>{_table((), rows)}</details>" if rows else ""


def _flat(value: Any, path: str) -> Rows:
    """Every value below a section: its path within the section, and what to show."""
    label = path.partition(".")[2].replace(".", " ").replace("_", " ")
    if path in _SHOWN_ELSEWHERE or value is None:
        return
    if isinstance(value, Mapping) and not _is_number(value):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}")
    elif isinstance(value, list):
        if all(not isinstance(item, (Mapping, list)) for item in value):
            if value:
                yield label, escape(" ".join(str(item) for item in value))
            return
        for place, inner in enumerate(value, 1):
            yield from _flat(inner, f"{path}.{place}")
    else:
        yield label, number(value) if _is_number(value) else escape(value)


def _gaps(passport: Json) -> str:
    rows = [(gap["field"], escape(gap["reason"])) for gap in passport["gaps"]]
    return f"<details><summary>not known, and why</summary>{_table((), rows)}</details>" if rows else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose first column is text still to be escaped; the others are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in (escape(first), *others))
        lines.append(f"<tr>{cells}</tr>")
    return "<table>" + (f"<tr>{top}</tr>" if top else "") + "".join(lines) + "</table>"


def number(told: Json | None) -> str:
    """A passport's number with its unit, escaped; "n/a" where it is not known."""
    if told is None:
        return "n/a"
    unit = str(told["unit"])
    return escape(figure(told["value"], _UNITS.get(unit, unit)).strip())


def at(passport: Json, path: str) -> Json | None:
    """The number at a path; None where it is not known or there is no such field."""
    here: Any = passport
    for name in path.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here if _is_number(here) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Mapping) and {"value", "unit", "source"} == value.keys()
