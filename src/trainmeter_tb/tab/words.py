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
    "data_wait": "waiting for data",
    "checkpoint": "saving checkpoints",
    "eval": "in evaluation",
    "logging": "in tracker calls",
    "startup": "starting up",
    "other": "on nothing that trainmeter sees",
}

_MFU = (("mfu_pct", "MFU"), ("ladder/4_ofu", "OFU"), ("ladder/1_gpu_util", "GPU utilization"))

_RATES = (("tokens_per_s", "tokens"), ("samples_per_s", "samples"))


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
    """The kinds of time that differ; the steps themselves are what the others leave."""
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
    """The first utilization that both have: the others would say the same again."""
    for name, label in _MFU:
        before, after = a.get(name), b.get(name)
        if before is None or after is None:
            continue
        points = abs(after - before)
        if points >= _POINTS:
            how = "higher" if after > before else "lower"
            yield Difference(
                points / 20, f"has an {label} {points:.1f} points {how} ({after:.1f} % against {before:.1f} %)"
            )
        return


def _rates(a: Mapping[str, float], b: Mapping[str, float]) -> Iterator[Difference]:
    """Speed in tokens, where there are none in samples; per GPU too where their number differs; and power."""
    for name, what in _RATES:
        if name in a and name in b:
            yield from _rate(a[name], b[name], "trains", what + " per second")
            break
    devices = _devices(a), _devices(b)
    if None not in devices and devices[0] != devices[1]:
        each = "tokens_per_s_per_gpu"
        yield from _rate(a[each], b[each], "trains", "tokens per second and GPU")
    power = "gpu/power_w"
    if power in a and power in b and a[power] > 0:
        share = b[power] / a[power] - 1
        if abs(share) >= _SHARE:
            how = "more" if share > 0 else "less"
            yield Difference(
                abs(share),
                f"draws {100 * abs(share):.0f} % {how} power per GPU ({b[power]:.0f} W against {a[power]:.0f} W)",
            )


def _rate(before: float, after: float, does: str, what: str) -> Iterator[Difference]:
    if before <= 0 or after <= 0 or abs(after / before - 1) < _SHARE:
        return
    share = after / before - 1
    if share >= 1:
        change = f"{after / before:.1f} times as many"
    else:
        change = f"{100 * abs(share):.0f} % " + ("more" if share > 0 else "fewer")
    yield Difference(abs(share), f"{does} {change} {what} ({after:,.0f} against {before:,.0f})")


def _devices(medians: Mapping[str, float]) -> int | None:
    whole, each = medians.get("tokens_per_s"), medians.get("tokens_per_s_per_gpu")
    return None if not whole or not each else round(whole / each)
