"""The derived numbers of a passport, each from inputs that stand in the same passport, so that they can be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.flops.counted import counted_from
from trainmeter_core.ladder import model_intensity
from trainmeter_core.readings import Absent
from trainmeter_core.series import TIME_KINDS
from trainmeter_core.weight_traffic import weight_traffic

from . import utilization
from .sheet import COUNTED, FORMULA, Json, Sheet, Value, first_absent, ratio, reading

if TYPE_CHECKING:
    from .formulas import Formulas

HEADLINE = "torchtitan"


def compute(passport: Json, formulas: Formulas | Absent, sheet: Sheet) -> Json:
    """FLOPs under every convention: sum over batches of formula x calls, times ranks over ranks seen."""
    whole = _flops(passport, "data", formulas)
    part = _flops(passport, "steady", formulas)
    tokens = reading(passport, "data.tokens")
    per_token = {name: _exact(ratio(flops, tokens), flops, tokens) for name, flops in whole.items()}
    return {
        "convention": passport["options"]["convention"],
        "flops": sheet.numbers("compute.flops", whole, "FLOPs", FORMULA),
        "steady_flops": sheet.numbers("compute.steady_flops", part, "FLOPs", FORMULA),
        "flops_per_token": sheet.numbers("compute.flops_per_token", per_token, "FLOPs/token", FORMULA),
        "counted": sheet.number("compute.counted", _counted(passport, "data"), "FLOPs", COUNTED),
        "steady_executed": _executed(passport, formulas, sheet),
        "required": sheet.number("compute.required", _required(passport, whole, part, per_token), "FLOPs", FORMULA),
    }


def _exact(quotient: Value, above: Value, below: Value) -> Value:
    """An integer where the division has no rest."""
    if isinstance(quotient, Absent) or not isinstance(above, int) or not isinstance(below, int):
        return quotient
    return above // below if above % below == 0 else quotient


def _flops(passport: Json, part: str, formulas: Formulas | Absent) -> dict[str, Value]:
    headline = passport["options"]["convention"]
    if isinstance(formulas, Absent):
        return {headline: formulas}
    batches = passport[part]["batches"]
    if batches is None:
        return {headline: Absent("no batches to count in")}
    if passport["data"]["samples"] is None:
        return {headline: Absent("not every step's batch was seen")}
    flops: dict[str, Value] = {
        name: _all_ranks(passport, value) for name, value in formulas.of_batches(batches["rows"]).items()
    }
    if headline not in flops:
        unnamed = "no convention of this name" if flops else "no sequence length was seen in the batches"
        flops[headline] = Absent(unnamed)
    return flops


def _counted(passport: Json, part: str, *, whole: bool = False) -> Value:
    """FLOPs of all ranks by the counted micro-batches; with `whole`, only where no operation is left out."""
    table, batches = passport["data"]["counted"], passport[part]["batches"]
    if table is None:
        reasons = (gap["reason"] for gap in passport["gaps"] if gap["field"] == "data.counted")
        return Absent(next(reasons, "not recorded"))
    if batches is None or passport["data"]["samples"] is None:
        return Absent("not every step's batch was seen")
    counted = counted_from({**table, "counts": table["rows"]})
    value: Value = counted.executed(batches["rows"]) if whole else counted.of_batches(batches["rows"])
    return _all_ranks(passport, value)


def _executed(passport: Json, formulas: Formulas | Absent, sheet: Sheet) -> Json | None:
    """What the steady part executed: counted, else by the formula where recomputation is visible."""
    counted = _counted(passport, "steady", whole=True)
    if not isinstance(counted, Absent):
        return sheet.number("compute.steady_executed", counted, "FLOPs", COUNTED)
    batches = passport["steady"]["batches"]
    value: Value = counted
    if not isinstance(formulas, Absent) and batches is not None and formulas.executed_of_sequence is not None:
        value = _all_ranks(passport, formulas.executed(batches["rows"]))
    return sheet.number("compute.steady_executed", value, "FLOPs", FORMULA)


def _all_ranks(passport: Json, value: Value) -> Value:
    """A count over the ranks that count batches, times all of these over those seen."""
    world_size = reading(passport, "hardware.world_size")
    together = reading(passport, "hardware.batch_ranks")
    seen = reading(passport, "hardware.batches_seen")
    if isinstance(world_size, Absent) or isinstance(together, Absent) or isinstance(seen, Absent) or together < 1:
        return value
    everyone = max(1, int(world_size // together))
    if not 0 < seen < everyone:
        return value
    scaled = _times(value, everyone)
    return _exact(ratio(scaled, seen), scaled, seen)


def _times(value: Value, factor: Value) -> Value:
    absent = first_absent(value, factor)
    return absent if absent is not None else value * factor  # type: ignore[operator]  # both are numbers here


def _required(passport: Json, whole: dict[str, Value], part: dict[str, Value], per_token: dict[str, Value]) -> Value:
    """FLOPs of the budget: per token, per step, or at the steady rate for its hours."""
    options = passport["options"]
    if options["budget_flops"] is not None:
        return reading(passport, "options.budget_flops")
    headline = options["convention"]
    if options["budget_tokens"] is not None:
        return _times(per_token[headline], reading(passport, "options.budget_tokens"))
    if options["budget_steps"] is not None:
        return ratio(
            _times(whole[headline], reading(passport, "options.budget_steps")), reading(passport, "data.steps")
        )
    if options["budget_hours"] is not None:
        rate = ratio(part[headline], reading(passport, "steady.seconds"))
        return _times(rate, ratio(reading(passport, "options.budget_hours"), 1, 3600))
    return Absent("no budget was given")


def efficiency(passport: Json, sheet: Sheet) -> Json:
    """Rates over the steady part; MFU = steady FLOPs / (steady seconds x devices x peak)."""
    span = reading(passport, "steady.seconds")
    devices = reading(passport, "hardware.devices")
    peak = reading(passport, "options.peak_tflops")
    if isinstance(peak, Absent):
        peak = Absent(_no_peak(passport, peak))
    flops = {name: reading(passport, "compute.steady_flops." + name) for name in passport["compute"]["steady_flops"]}
    available = _times(_times(span, devices), peak)
    mfu = {name: ratio(value, available, 100 / 1e12) for name, value in flops.items()}
    headline = passport["options"]["convention"]
    tokens = reading(passport, "steady.tokens")
    rates: dict[str, Any] = {
        "tokens_per_s": (ratio(tokens, span), "tokens/s"),
        "tokens_per_s_per_device": (ratio(ratio(tokens, span), devices), "tokens/s"),
        "samples_per_s": (ratio(reading(passport, "steady.samples"), span), "samples/s"),
        "step_time_s": (ratio(span, reading(passport, "steady.steps")), "seconds"),
        "tflops": (ratio(flops[headline], span, 1e-12), "TFLOP/s"),
        "tflops_per_device": (ratio(ratio(flops[headline], span, 1e-12), devices), "TFLOP/s"),
        "mfu_pct": (mfu[headline], "percent"),
    }
    section = {name: sheet.number("efficiency." + name, value, unit, FORMULA) for name, (value, unit) in rates.items()}
    section["mfu"] = sheet.numbers("efficiency.mfu", mfu, "percent", FORMULA)
    hfu = ratio(reading(passport, "compute.steady_executed"), available, 100 / 1e12)
    section["hfu_pct"] = sheet.number("efficiency.hfu_pct", hfu, "percent", FORMULA)
    utilization.add(section, passport, sheet, _model_intensity(passport))
    return section


def _model_intensity(passport: Json) -> Value:
    """Headline FLOPs of the steady part over the fewest bytes that its micro-batches and steps must move."""
    flops = reading(passport, "compute.steady_flops." + passport["options"]["convention"])
    return model_intensity(flops, flops if isinstance(flops, Absent) else _fewest_bytes(passport))


def _fewest_bytes(passport: Json) -> Value:
    """Over all ranks: each of those that count batches moves the whole model once in each of its steps."""
    described = passport["model"]["description"]
    if described is None:
        return Absent("the passport does not hold the model's description")
    total, active = reading(passport, "model.parameters_total"), reading(passport, "model.parameters_active")
    steps, ranks = reading(passport, "steady.steps"), reading(passport, "hardware.batches_seen")
    if isinstance(total, Absent) or isinstance(active, Absent):
        return first_absent(total, active) or total
    if isinstance(steps, Absent) or isinstance(ranks, Absent):
        return first_absent(steps, ranks) or steps
    traffic = weight_traffic(described, int(total - active))
    if isinstance(traffic, Absent):
        return traffic
    calls = sum(row[3] for row in passport["steady"]["batches"]["rows"] if row[0])
    return _all_ranks(passport, traffic.fewest_bytes(calls, int(steps * ranks)))


def _no_peak(passport: Json, peak: Absent) -> str:
    if passport["hardware"]["gpus"] == []:
        return "no GPU, so no peak: give the peak of one device with --peak-tflops"
    if peak.reason == "not recorded":
        return "the peak of this device is not known: give it with --peak-tflops"
    return peak.reason


def shares(passport: Json, sheet: Sheet) -> Json:
    """Percent of the ranks' summed wall time by kind; the known ones add up to 100."""
    values = {kind: reading(passport, "time.rank_seconds." + kind) for kind in TIME_KINDS}
    total = sum(value for value in values.values() if not isinstance(value, Absent))
    return sheet.numbers(
        "time.shares", {kind: ratio(value, total, 100.0) for kind, value in values.items()}, "percent", FORMULA
    )
