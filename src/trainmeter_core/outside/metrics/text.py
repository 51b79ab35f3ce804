"""Readings as Prometheus text (exposition format 0.0.4), written by prometheus_client."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trainmeter_core.series import PREFIX, series_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
Samples = dict[str, dict[Labels, float]]
"""Series name without prefix -> labels -> value; both in the order in which they shall appear."""

_OTHER = re.compile(r"[^a-zA-Z0-9_]")


def samples(
    series: Mapping[str, float],
    *,
    labels: Mapping[str, str],
    ranks: Mapping[int, Mapping[str, float]] | None = None,
    gpus: Mapping[str, Mapping[str, float]] | None = None,
) -> Samples:
    """Bring readings of the run, of ranks and of GPUs together, every one with the labels common to all."""
    common = tuple((name, text.encode(errors="replace").decode()) for name, text in labels.items())
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
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(told, prefix, tuple(without)))
    return generate_latest(registry).decode()


class _Told:
    """The samples as prometheus_client collects them."""

    def __init__(self, told: Samples, prefix: str, left_out: tuple[str, ...]) -> None:
        self._told, self._prefix, self._left_out = told, prefix, left_out

    def collect(self) -> Iterator[Metric]:
        """One gauge per series; its samples may have different labels."""
        from prometheus_client import Metric

        for name, values in self._told.items():
            if name.startswith(self._left_out):
                continue
            gauge = Metric(self._prefix + metric_name(name), _meaning(name), "gauge")
            for labels, value in values.items():
                gauge.add_sample(gauge.name, {metric_name(key): text for key, text in labels}, value)
            yield gauge


def metric_name(series: str) -> str:
    """Name a series as Prometheus does: letters, digits and underscores, no digit first."""
    name = _OTHER.sub("_", series)
    return "_" + name if name[:1].isdigit() else name


def _meaning(name: str) -> str:
    try:
        known = series_of(name)
    except KeyError:  # a reading that is no published series
        return ""
    return f"{known.meaning} ({known.unit})" if known.name == name else ""
