"""Renders a passport as Markdown for a model card; every string of the run is escaped for Markdown and HTML."""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, Mapping, Sequence

from trainmeter_core.readings import Absent
from trainmeter_core.series import RUNG_NAMES

from .sheet import Json, reading
from .worked import worked

MOST_LOSSES = 40
MOST_BATCHES = 12
_TIMES = "\u00d7"

Rows = Iterable[Sequence[str]]


def render(passport: Json, pictures: str = "") -> str:
    """The whole document: a headline, one table per section, and the gaps at the end.

    `pictures` is Markdown that follows the headline, from `card.picture_tags`.
    """
    parts = [
        "# Training passport: " + escape(passport["identity"]["script"] or "unknown script"),
        headline(passport),
        pictures,
        _section("Identity", _identity(passport)),
        _section("Hardware and software", _hardware(passport)),
        _section("Model", _model(passport)),
        _section("Data", _data(passport)),
        _section("Compute", _compute(passport)),
        _section("Efficiency", _efficiency(passport)),
        _table("What stands out", ("", ""), _verdicts(passport)),
        _section("Where the time went", _time(passport)),
        _section("Energy", [("GPUs", cell(passport["energy"]["gpu_kwh"]))]),
        _table("Losses", ("name", "first", "last", "lowest", "values"), _losses(passport)),
        _table("Worked out by hand", ("number", "formula", "with its inputs"), _worked(passport)),
        _table("Not known", ("field", "why"), _gaps(passport)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(passport: Json) -> str:
    """One line: steps, tokens, FLOPs, MFU with its convention, peak and where that came from; n/a with the reason."""
    name = passport["options"]["convention"]
    words = [
        figure(reading(passport, "data.steps"), "steps"),
        _seen(passport),
        f"{figure(reading(passport, 'compute.flops.' + name), 'FLOPs')} ({escape(name)})",
        "MFU " + _mfu(passport),
        "ended: " + (passport["ends"]["how"] or "not recorded"),
    ]
    return "**" + " · ".join(words) + "**"


def _seen(passport: Json) -> str:
    """Tokens; samples for a model that has none."""
    tokens = reading(passport, "data.tokens")
    if tokens == 0 and passport["data"]["samples"] is not None:
        return figure(reading(passport, "data.samples"), "samples")
    return figure(tokens, "tokens")


def _mfu(passport: Json) -> str:
    value = reading(passport, "efficiency.mfu_pct")
    if isinstance(value, Absent):
        return escape(str(value))
    options = passport["options"]
    peak = figure(reading(passport, "options.peak_tflops"), "TFLOP/s")
    said = {"user": "given by the user"}.get(options["peak_source"], options["peak_source"] or "source not recorded")
    dtype = " " + options["peak_dtype"] if options["peak_dtype"] else ""
    return (
        f"{figure(value, '%')} ({escape(options['convention'])}; peak {peak}{escape(dtype)} per device, {escape(said)})"
    )


def _identity(passport: Json) -> Rows:
    known = passport["identity"]
    command = known["command"]
    commit = known["git_commit"]
    dirty = {True: ", with uncommitted changes", False: "", None: ", changes not known"}[known["git_dirty"]]
    yield "run", _text(known["run_id"])
    if "name" in known:
        yield "name", escape(known["name"])
    yield "script", _text(known["script"])
    yield "command", _text(None if command is None else " ".join(command))
    yield "started (UTC)", _text(known["started"])
    yield "git commit", _text(commit) + (dirty if commit else "")
    for tracker in known["trackers"]:
        where = [f"{escape(key)} {_link(value)}" for key, value in sorted(tracker["where"].items())]
        yield escape(tracker["tracker"]), ", ".join(where)
    ends = passport["ends"]
    yield (
        "end",
        _text(ends["how"]) + (f" ({ends['status']['unit']} {ends['status']['value']})" if ends["status"] else ""),
    )


def _hardware(passport: Json) -> Rows:
    known, software = passport["hardware"], passport["software"]
    gpus = known["gpus"]
    listed = (
        None if gpus is None else ", ".join(f"{gpu['count']['value']} {_TIMES} {gpu['name']}" for gpu in gpus) or "none"
    )
    yield "GPUs", _text(listed)
    yield "processes", cell(known["world_size"])
    yield "CPU", _text(known["cpu"])
    yield "CPU cores", cell(known["cpu_cores"])
    yield "memory", cell(known["memory_bytes"])
    yield "interconnect", _text(known["interconnect"])
    for name in ("python", "torch", "cuda", "driver", "trainmeter"):
        yield name, _text(software[name])
    for name, version in software["packages"].items():
        yield escape(name), escape(version)


def _model(passport: Json) -> Rows:
    known = passport["model"]
    for name in ("total", "trainable", "active"):
        yield f"parameters, {name}", cell(known["parameters_" + name])
    yield "family", _text(known["family"])
    for name in ("layers", "width"):
        yield name, "n/a" if known[name] is None else _plain(known[name]["value"])
    yield "shape taken from", _text(known["shape_source"])


def _data(passport: Json) -> Rows:
    known = passport["data"]
    for name in ("steps", "steps_skipped", "tokens", "samples", "micro_batches", "padding_pct"):
        yield name.replace("_pct", "").replace("_", " "), cell(known[name])
    if known["batches"] is not None:
        rows = known["batches"]["rows"]
        shown = [
            f"{calls} {_TIMES} ({b} {_TIMES} {t}{f' → {t2}' if t2 else ''})" for b, t, t2, calls in rows[:MOST_BATCHES]
        ]
        more = len(rows) - MOST_BATCHES
        yield (
            f"batches, calls {_TIMES} (sequences {_TIMES} length)",
            ", ".join(shown) + (f" and {more} more shapes" if more > 0 else ""),
        )


def _compute(passport: Json) -> Rows:
    known = passport["compute"]
    for name in sorted(known["flops"], key=lambda each: (each != known["convention"], each)):
        per_token = known["flops_per_token"].get(name)
        each = f"; {cell(per_token)}" if per_token else ""
        bold = "**" if name == known["convention"] else ""
        yield bold + escape(name) + bold, _exactly(passport, "compute.flops." + name) + each
    if known["counted"] is not None:
        left_out = passport["data"]["counted"]["gaps"]
        without = f"; without {escape(', '.join(left_out))}" if left_out else ""
        yield "counted as executed", _exactly(passport, "compute.counted") + without
    yield "required by the budget", cell(known["required"])


def _exactly(passport: Json, field: str) -> str:
    value = reading(passport, field)
    return escape(str(value)) if isinstance(value, Absent) else f"{figure(value, 'FLOPs')} ({_plain(value)})"


def _efficiency(passport: Json) -> Rows:
    known = passport["efficiency"]
    labels = {
        "tokens_per_s": "speed",
        "tokens_per_s_per_device": "speed per device",
        "samples_per_s": "samples",
        "step_time_s": "mean step",
        "tflops": "model FLOP rate",
        "tflops_per_device": "model FLOP rate per device",
    }
    yield "MFU", _mfu(passport)
    for name, number in sorted(known["mfu"].items()):
        if number is not None and name != passport["options"]["convention"]:
            yield "MFU, " + escape(name), cell(number)
    yield "HFU", cell(known["hfu_pct"])
    for name, label in labels.items():
        yield label, cell(known[name])
    for rung, number in known["ladder"].items():
        if number is not None and rung[2:] not in ("hfu", "mfu"):
            yield "ladder: " + RUNG_NAMES[rung], cell(number)

    reference = passport["hardware"]["reference_mhz"]
    if known["ladder"]["4_ofu"] is not None:
        yield "reference clock of OFU", cell(reference)
    for name, number in known["intensity"].items():
        if number is not None:
            yield "arithmetic intensity, " + name, cell(number)


def _verdicts(passport: Json) -> Rows:
    for verdict in passport["verdicts"]:
        yield verdict["level"], escape(verdict["sentence"])
    for gap in passport["efficiency"]["ladder_gaps"]:
        path = " → ".join(RUNG_NAMES.get(gap[end], gap[end][2:]) for end in ("upper", "lower"))
        yield path, escape(gap["sentence"])


def _time(passport: Json) -> Rows:
    known = passport["time"]
    yield "wall time", cell(known["wall_s"])
    yield "start-up", cell(known["startup_s"])
    yield "restarts", cell(known["restarts"])
    yield "lost steps", cell(known["lost_steps"])
    for kind, share in known["shares"].items():
        yield kind.replace("_", " "), cell(share)


def _worked(passport: Json) -> Rows:
    for each in worked(passport):
        yield escape(each.field), escape(each.formula), escape(each.numbers)


def _losses(passport: Json) -> Rows:
    for name, loss in list(passport["losses"].items())[:MOST_LOSSES]:
        shown = [_logged(loss[which]) for which in ("first", "last", "best")]
        yield (escape(name), *shown, cell(loss["count"]))


def _logged(at: Mapping[str, Any]) -> str:
    value = "n/a" if at["value"] is None else f"{at['value']['value']:.6g}"
    return value if at["step"] is None else f"{value} at step {at['step']['value']}"


def _gaps(passport: Json) -> Rows:
    return [(escape(gap["field"]), escape(gap["reason"])) for gap in passport["gaps"]]


def _section(title: str, rows: Rows) -> str:
    return _table(title, ("", ""), rows)


def _table(title: str, head: Sequence[str], rows: Rows) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return ""
    top = "| " + " | ".join(head) + " |\n|" + " --- |" * len(head)
    return f"## {title}\n\n{top}\n" + "\n".join(lines)


def cell(number: Json | None) -> str:
    """A passport's number with its unit, and its source where it is not measured, counted or by formula."""
    if number is None:
        return "n/a"
    source: str = number["source"]
    unit: str = number["unit"]
    told = f" ({'given by the user' if source == 'user' else source})" if source in ("user", "assumed") else ""
    return escape(figure(number["value"], _UNITS.get(unit, unit)) + told)


_UNITS: dict[str, str] = {"percent": "%", "seconds": "s", "FLOPs/token": "FLOPs per token"}
_ONE = {"steps": "step", "tokens": "token", "samples": "sample", "processes": "process", "micro-batches": "micro-batch"}
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SCALED = ("FLOPs", "FLOPs per token", "bytes")


def figure(value: float | Absent, unit: str) -> str:
    """A number for reading: four significant digits for FLOPs, bytes and fractions, counts in full."""
    if isinstance(value, Absent):
        return escape(str(value))
    if unit in _SCALED:
        return _scaled(value, unit)
    shown = _plain(value) if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"  # noqa: PLR2004
    if value == 1 and isinstance(value, int):
        unit = _ONE.get(unit, unit)
    return f"{shown} {unit}"


def _scaled(value: float, unit: str) -> str:
    power = 0 if abs(value) < 1000 else min(int(math.log10(abs(value)) // 3), len(_PREFIXES) - 1)  # noqa: PLR2004
    if float(f"{value / 1000**power:.4g}") >= 1000 and power < len(_PREFIXES) - 1:  # noqa: PLR2004  999.96 rounds up
        power += 1
    prefix, rest = _PREFIXES[power], unit
    if unit == "bytes":
        prefix, rest = (prefix + "B", "") if power else ("", "bytes")
    return f"{value / 1000**power:.4g} {prefix}{rest}"


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _text(value: str | None) -> str:
    return "n/a" if value is None else escape(value)


_PLAIN_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-]+(?::\d+)?(?:/[A-Za-z0-9._~%\-/]*)?")


def _link(value: str) -> str:
    """A tracker's own address as a link, when nothing in it could be anything else; else text."""
    return f"<{value}>" if _PLAIN_ADDRESS.fullmatch(value) else escape(value)


_ESCAPES: dict[int, str] = {ord(sign): "\\" + sign for sign in "\\`*_{}[]#|~$"}
_ESCAPES.update({ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;", ord('"'): "&quot;", ord("'"): "&#39;"})
# No line may begin inside a cell, and no address may turn into a link by itself.
_ESCAPES.update(dict.fromkeys((*range(32), 127, 0x85, 0x2028, 0x2029), " "))
# Marks that reorder the text around them.
_ESCAPES.update(dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F), ""))
# Bytes of a command line that are no UTF-8 come as half characters, which no file can hold.
_ESCAPES.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
_ESCAPES[ord("@")] = "&#64;"


def escape(text: str) -> str:
    """Text that stays text in a Markdown table cell and in HTML: no markup, link, mention, cell border or new line."""
    return text.translate(_ESCAPES).replace("://", "&#58;//").replace("www.", "www&#46;")
