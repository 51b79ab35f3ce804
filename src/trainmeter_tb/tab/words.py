"""The difference between two runs in plain sentences; pure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A difference smaller than this is noise between two runs of the same program.
_POINTS = 1.0
_SHARE = 0.02

_TIME = {
    "step": "in the steps themselves",
    "data_wait": "waiting for data",
    "checkpoint": "saving checkpoints",
    "eval": "in evaluation",
    "logging": "in tracker calls",
    "startup": "starting up",
    "other": "on nothing that trainmeter sees",
}

_RATES = {
    "tokens_per_s": ("trains", "tokens per second"),
    "tokens_per_s_per_gpu": ("trains", "tokens per second and GPU"),
    "samples_per_s": ("trains", "samples per second"),
    "gpu/power_w": ("draws", "watts per GPU"),
}


class Difference(NamedTuple):
    """One sentence about the second run, without its subject, and how much it matters (1 is a doubling)."""

    weight: float
    sentence: str


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Say how the second run differs from the first, what matters most first.

    Both are tables of series, name to ``values``; each is taken by its median over the run. What only one of them has
    is left out.
    """
    a, b = _medians(first), _medians(second)
    found = [*_time(a, b), *_mfu(a, b), *_rates(a, b)]
    return [difference.sentence for difference in sorted(found, key=lambda each: -each.weight)]


def _medians(series: Mapping[str, Any]) -> dict[str, float]:
    return {name: median(column["values"]) for name, column in series.items() if column["values"]}


def _time(a: Mapping[str, float], b: Mapping[str, float]) -> Iterator[Difference]:
    for kind, doing in _TIME.items():
        before, after = a.get("time/" + kind), b.get("time/" + kind)
        if before is None or after is None or abs(after - before) < _POINTS:
            continue
        how = "more" if after > before else "less"
        yield Difference(
            abs(after - before) / 50,
            f"spends {abs(after - before):.0f} points {how} of its time {doing} ({after:.0f} % against {before:.0f} %)",
        )


def _mfu(a: Mapping[str, float], b: Mapping[str, float]) -> Iterator[Difference]:
    for name, label in (("mfu_pct", "MFU"), ("ladder/4_ofu", "OFU"), ("hfu_pct", "HFU")):
        before, after = a.get(name), b.get(name)
        if before is None or after is None or abs(after - before) < _POINTS:
            continue
        how = "higher" if after > before else "lower"
        yield Difference(
            abs(after - before) / 20,
            f"has an {label} that is {abs(after - before):.1f} points {how} ({after:.1f} % against {before:.1f} %)",
        )


def _rates(a: Mapping[str, float], b: Mapping[str, float]) -> Iterator[Difference]:
    for name, (does, what) in _RATES.items():
        before, after = a.get(name), b.get(name)
        if before is None or after is None or before <= 0 or after <= 0:
            continue
        if name == "tokens_per_s_per_gpu" and _same(a["tokens_per_s"] / before, b["tokens_per_s"] / after):
            continue  # as many GPUs: the sentence about all of them says it
        share = after / before - 1
        if abs(share) < _SHARE:
            continue
        change = f"{after / before:.1f} times as many" if share >= 1 else f"{abs(share):.0%} {_more(share)}"
        yield Difference(abs(share), f"{does} {change} {what} ({after:,.0f} against {before:,.0f})".replace("%", " %"))


def _more(share: float) -> str:
    return "more" if share > 0 else "fewer"


def _same(x: float, y: float) -> bool:
    return abs(x / y - 1) < _SHARE
