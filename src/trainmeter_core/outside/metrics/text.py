"""Readings as Prometheus text (exposition format 0.0.4); pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trainmeter_core.series import PREFIX, series_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
Samples = dict[str, dict[Labels, float]]
"""Series name without prefix -> labels -> value; both in the order in which they shall appear."""

_OTHER = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def samples(
    series: Mapping[str, float],
    *,
    labels: Mapping[str, str],
    ranks: Mapping[int, Mapping[str, float]] | None = None,
    gpus: Mapping[str, Mapping[str, float]] | None = None,
) -> Samples:
    """Bring readings of the run, of ranks and of GPUs together, every one with the labels common to all."""
    common = tuple(labels.items())
    told: Samples = {}
    _add(told, series, common)
    for rank, readings in sorted((ranks or {}).items()):
        _add(told, readings, (*common, ("rank", str(rank))))
    for gpu, readings in (gpus or {}).items():
        _add(told, readings, (*common, ("gpu", gpu)))
    return told


def _add(told: Samples, readings: Mapping[str, float], labels: Labels) -> None:
    for name, value in readings.items():
        if isinstance(value, (int, float)) and math.isfinite(value):
            told.setdefault(name.removeprefix(PREFIX), {})[labels] = value


def exposition(told: Samples, *, prefix: str = "", without: Iterable[str] = ()) -> str:
    """Give the document: one gauge per series, named with the prefix, families of `without` left out."""
    left_out = tuple(without)
    lines: list[str] = []
    for name, values in told.items():
        if name.startswith(left_out):
            continue
        metric = prefix + metric_name(name)
        meaning = _meaning(name)
        if meaning:
            lines.append(f"# HELP {metric} {meaning}")
        lines.append(f"# TYPE {metric} gauge")
        lines += [f"{metric}{{{_labels(labels)}}} {value!r}" for labels, value in values.items()]
    return "\n".join(lines) + "\n" if lines else ""


def metric_name(series: str) -> str:
    """Name a series as Prometheus does: letters, digits and underscores, no digit first."""
    name = _OTHER.sub("_", series)
    return "_" + name if name[:1].isdigit() else name


def _labels(labels: Labels) -> str:
    return ",".join(f'{metric_name(name)}="{value.translate(_ESCAPES)}"' for name, value in labels)


def _meaning(name: str) -> str:
    try:
        known = series_of(name)
    except KeyError:  # a reading that is no published series
        return ""
    return f"{known.meaning} ({known.unit})".replace("\\", r"\\").replace("\n", " ") if known.name == name else ""
