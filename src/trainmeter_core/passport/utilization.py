"""The utilization ladder, arithmetic intensity and verdicts of a passport, from the means of its steady part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core import ladder, verdicts
from trainmeter_core.gpu_totals import throttle_shares
from trainmeter_core.readings import Absent

from .sheet import FORMULA, MEASURED, Json, Sheet, Value, ratio, reading

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord

_NO_GPU = Absent("no GPU in this run")
LEVELS = ("error", "warning", "info")


def add(section: Json, passport: Json, sheet: Sheet, of_model: Value) -> None:
    """Add the ladder with the sentence for each gap, and the intensities, to the section `efficiency`."""
    view = {**passport, "efficiency": section}
    rungs = _climb(view)
    section["ladder"] = sheet.numbers("efficiency.ladder", dict(rungs.rungs()), "percent", FORMULA)
    section["ladder_gaps"] = [
        {
            "upper": gap.upper,
            "lower": gap.lower,
            "points": sheet.number("efficiency.ladder_gaps", gap.points, "percent points", FORMULA),
            "sentence": gap.sentence,
        }
        for gap in (ladder.gaps(rungs) if passport["steady"]["gpus"] else [])
    ]
    observed, ridge = _intensities(passport, rungs)
    section["intensity"] = sheet.numbers(
        "efficiency.intensity", {"observed": observed, "model": of_model, "ridge": ridge}, "FLOP/byte", FORMULA
    )


def found(passport: Json) -> list[Json]:
    """What the means of the steady part say is wrong, the worst first; derived, so that it can be checked."""
    rungs = _climb(passport)
    observed, ridge = _intensities(passport, rungs)
    steps = reading(passport, "data.steps")
    each = verdicts.verdicts(
        _counters(passport, stuck=True),
        rungs,
        reference_mhz=reading(passport, "hardware.reference_mhz"),
        observed_intensity=observed,
        ridge=ridge,
        peak_dtype=passport["options"]["peak_dtype"] or "",
        steps=None if isinstance(steps, Absent) else int(steps),
    )
    return [{**verdict._asdict(), "source": FORMULA} for verdict in each]


def noted(record: RunRecord) -> list[Json]:
    """What was seen to go wrong while the run went on."""
    return [
        {"code": each.code, "level": each.level, "sentence": each.sentence, "source": MEASURED} for each in record.noted
    ]


def worst_first(each: list[Json]) -> list[Json]:
    """By level, and what was seen before what was derived."""
    return sorted(each, key=lambda verdict: (LEVELS.index(verdict["level"]), verdict["source"] == FORMULA))


def _climb(passport: Json) -> ladder.Ladder:
    counters = _counters(passport)
    rungs = ladder.climb(
        counters,
        reference_mhz=Absent("each sample has its own"),
        hfu_pct=reading(passport, "efficiency.hfu_pct"),
        mfu_pct=reading(passport, "efficiency.mfu_pct"),
    )
    ofu = _mean(passport, "ofu_pct", _no_ofu(passport))
    return rungs._replace(ofu=counters.tensor_active_pct if isinstance(counters.tensor_active_pct, Absent) else ofu)


def _no_ofu(passport: Json) -> Absent:
    reference = reading(passport, "hardware.reference_mhz")
    return reference if isinstance(reference, Absent) else Absent("no sample had both tensor activity and clock")


def _counters(passport: Json, *, stuck: bool = False) -> ladder.Counters:
    """Means over the job's GPUs of the steady part; `stuck` keeps counters that cannot be true, to be judged."""
    none = _why_none(passport)
    means: dict[str, Any] = {
        ours: _mean(passport, theirs, none if isinstance(none, Absent) else Absent("not available on this GPU"))
        for ours, theirs in _READINGS.items()
    }
    causes = {cause for gpu in passport["steady"]["gpus"].values() for cause in throttle_shares(gpu)}
    counters = ladder.Counters(
        **means,
        throttle_pct={cause: _mean(passport, "throttle/" + cause, Absent("not sampled")) for cause in sorted(causes)},
        samples=int(passport["steady"]["gpu_samples"]["value"]),
    )
    return counters if stuck else verdicts.without_stuck_counters(counters)


_READINGS = {
    "gpu_util_pct": "graphics_util_pct",
    "driver_util_pct": "gpu_util_pct",
    "sm_active_pct": "sm_active_pct",
    "tensor_active_pct": "tensor_active_pct",
    "dram_active_pct": "dram_active_pct",
    "sm_clock_mhz": "sm_clock_mhz",
    "power_w": "power_w",
    "power_limit_w": "power_limit_w",
}


def _why_none(passport: Json) -> Absent | None:
    hardware, gpus = passport["hardware"]["gpus"], passport["steady"]["gpus"]
    if hardware == []:
        return _NO_GPU
    if gpus:
        return None
    if passport["readings"]["gpus"]:
        return Absent("no GPU sample lies wholly in the steady part")
    reasons = [gap["reason"] for gap in passport["gaps"] if gap["field"] == "hardware.gpus"]
    told = reasons and reasons[0] != "not recorded"
    return Absent("no GPU counters were read" + (f": {reasons[0]}" if told else ""))


def _mean(passport: Json, name: str, otherwise: Absent) -> Value:
    values = [gpu[name]["value"] for gpu in passport["steady"]["gpus"].values() if name in gpu]
    return sum(values) / len(values) if values else otherwise


def _intensities(passport: Json, rungs: ladder.Ladder) -> tuple[Value, Value]:
    """Observed FLOPs over DRAM bytes, and the ridge."""
    if passport["hardware"]["gpus"] == []:
        return _NO_GPU, _NO_GPU
    peak, bandwidth = reading(passport, "options.peak_tflops"), reading(passport, "hardware.bandwidth")
    per_s = ratio(peak, 1e-12)
    flops = ladder.observed_flops_per_s(rungs.ofu, per_s, passport["options"]["peak_dtype"] or "")
    observed = ladder.observed_intensity(flops, _counters(passport).dram_active_pct, bandwidth)
    return observed, ladder.ridge_intensity(per_s, bandwidth)
