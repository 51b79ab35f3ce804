"""The measured and counted inputs of a passport: data, the steady part, and seconds; formulas come in derive.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from trainmeter_core.readings import Absent
from trainmeter_core.series import TIME_KINDS

from .sheet import ASSUMED, COUNTED, MEASURED, Json, Sheet, Value

if TYPE_CHECKING:
    from trainmeter_core.flops.counted import Counted
    from trainmeter_core.run_record import RankTotals, RunRecord
    from trainmeter_core.run_tables import BatchCounts

_NO_STEP = Absent("no optimizer step was seen")
_COUNTED_ELSEWHERE = Absent("the ranks of this node work on batches that ranks of other nodes count")
_UNSEEN = {
    "data_wait": Absent(
        "no data loader that trainmeter can see was used; time spent on data is part of the other kinds"
    ),
}
_UNSEEN_KIND = Absent("cannot be observed in this program; it is part of the other kinds")


def data(record: RunRecord, sheet: Sheet) -> Json:
    """Steps, tokens and batches. Ranks that were not seen are taken to be equal to those that were, and said so."""
    ranks = list(record.totals())
    steps = max((totals.steps for totals in ranks), default=0)
    skipped = max((totals.skipped for totals in ranks), default=0)
    source = _source(record)
    none = _NO_STEP if steps + skipped == 0 else None
    counts = {"tokens": "tokens", "samples": "samples", "micro_batches": "micro-batches"}
    section: Json = {
        "steps": sheet.number("data.steps", steps, "steps", COUNTED),
        "steps_skipped": sheet.number("data.steps_skipped", skipped, "steps", COUNTED),
    }
    for name, unit in counts.items():
        value = none if none is not None else _all_ranks(record, _sum(ranks, name))
        section[name] = sheet.number("data." + name, value, unit, source)
    section["padding_pct"] = sheet.gap("data.padding_pct", "masks are not read: that would synchronize the device")
    section["batches"] = _table(record.batches, "data.batches", sheet)
    section["counted"] = _counted(record.counted, sheet)
    return section


def steady(record: RunRecord, sheet: Sheet) -> Json:
    """The part after each process's first step: what rates and utilizations are taken over.

    Seconds are those of the slowest rank, checkpoints, evaluation and data waits included.
    """
    ranks = list(record.totals())
    source = _source(record)
    steps = max((totals.steady_steps for totals in ranks), default=0)
    seconds = record.steady_seconds()
    none = Absent("no step after the first one was seen") if steps == 0 or seconds <= 0 else None
    values: Any = {
        "steps": (steps, "steps", COUNTED),
        "tokens": (_all_ranks(record, _sum(ranks, "steady_tokens")), "tokens", source),
        "samples": (_all_ranks(record, _sum(ranks, "steady_samples")), "samples", source),
        "seconds": (seconds, "seconds", MEASURED),
        "shortest_step_s": (_extreme(min, [totals.shortest_step_s for totals in ranks]), "seconds", MEASURED),
        "longest_step_s": (_extreme(max, [totals.longest_step_s for totals in ranks]), "seconds", MEASURED),
    }
    section: Json = {
        name: sheet.number("steady." + name, none if none is not None else value, unit, origin)
        for name, (value, unit, origin) in values.items()
    }
    section["batches"] = _table(record.steady_batches, "steady.batches", sheet)
    section["gpus"] = {
        uuid: sheet.numbers(f"steady.gpus.{uuid}", dict(sorted(means.items())), "as sampled", MEASURED)
        for uuid, means in record.steady_gpus.means().items()
    }
    samples = [each.count for readings in record.steady_gpus.table.values() for each in readings.values()]
    section["gpu_samples"] = sheet.number("steady.gpu_samples", max(samples, default=0), "samples", COUNTED)
    return section


def seconds(record: RunRecord, sheet: Sheet) -> Json:
    """Wall time, start-up, restarts, and the ranks' seconds by kind of time, summed over the ranks seen."""
    ranks = list(record.totals())
    by_kind: Any = {}
    for kind in TIME_KINDS:
        total = sum(totals.time_s.get(kind, 0.0) for totals in ranks)
        unseen = any(totals.unseen_kinds.get(kind) for totals in ranks)
        by_kind[kind] = _UNSEEN.get(kind, _UNSEEN_KIND) if unseen and total == 0 else total
    if not any(totals.wall_s for totals in ranks):
        by_kind = dict.fromkeys(TIME_KINDS, _NO_STEP)
    startup = _extreme(max, [totals.startup_s for totals in ranks])
    lost = record.lost_steps()
    return {
        "wall_s": sheet.number("time.wall_s", _wall(record), "seconds", MEASURED),
        "startup_s": sheet.number("time.startup_s", startup, "seconds", MEASURED),
        "restarts": sheet.number("time.restarts", record.restarts, "restarts", COUNTED),
        "lost_steps": sheet.number("time.lost_steps", lost.steps, "steps", ASSUMED if lost.assumed else COUNTED),
        "rank_seconds": sheet.numbers("time.rank_seconds", by_kind, "seconds", MEASURED),
        "spans": {
            kind: {
                "count": sheet.number("time.spans." + kind, spans.count, "spans", COUNTED),
                "seconds": sheet.number("time.spans." + kind, spans.total, "seconds", MEASURED),
            }
            for kind, spans in sorted(record.spans.items())
        },
    }


def energy(record: RunRecord, sheet: Sheet) -> Json:
    """Energy of the job's GPUs, from their own counters."""
    counters = [table["energy_j"].high for table in record.gpus.values() if "energy_j" in table]
    no_gpu = record.hardware.gpus == []
    reason = "no GPU in this run" if no_gpu else "no GPU's energy counter was read"
    value: Value = sum(counters) / 3.6e6 if counters else Absent(reason)
    return {"gpu_kwh": sheet.number("energy.gpu_kwh", value, "kWh", MEASURED)}


def _source(record: RunRecord) -> str:
    return COUNTED if _factor(record) == (1, 1) else ASSUMED


def _factor(record: RunRecord) -> Any:
    """All ranks that count batches over those seen."""
    everyone, seen = record.batch_groups()
    if record.summed is not None or isinstance(everyone, Absent) or not 0 < seen < everyone:
        return 1, 1
    return everyone, seen


def _all_ranks(record: RunRecord, value: Value) -> Value:
    everyone, seen = _factor(record)
    if isinstance(value, Absent) or seen == everyone:
        return value
    scaled: Value = value * everyone // seen if value * everyone % seen == 0 else value * everyone / seen
    return scaled


def _sum(ranks: list[RankTotals], name: str) -> Value:
    if ranks and not any(totals.counts for totals in ranks):
        return _COUNTED_ELSEWHERE
    total: int | float = 0
    for totals in ranks:
        value: Value = getattr(totals, name)
        if isinstance(value, Absent):
            return value
        total += value
    return total


def _extreme(choose: Callable[[list[int | float]], int | float], values: list[Value]) -> Value:
    known = [value for value in values if not isinstance(value, Absent)]
    return choose(known) if known else Absent("no step was timed")


def _wall(record: RunRecord) -> Value:
    seconds = record.seconds_of_part()
    return Absent("no end was recorded") if seconds is None else record.seconds_before + seconds


def _counted(counted: Counted, sheet: Sheet) -> Json | None:
    if not counted.counts:
        return sheet.gap("data.counted", counted.absent)
    columns = ["sequences", "seq_len", "target_len", "flops"]
    rows = [list(row) for row in counted.counts]
    return {"columns": columns, "rows": rows, "unit": "FLOPs", "source": COUNTED, "gaps": list(counted.gaps)}


def _table(batches: BatchCounts, field: str, sheet: Sheet) -> Json | None:
    if batches.unseen_steps:
        return sheet.gap(field, f"the batches of {batches.unseen_steps} steps were not seen")
    if batches.left_out:
        return sheet.gap(field, "more batch shapes than a run record holds")
    if not len(batches):
        return sheet.gap(field, "no batch was seen")
    columns = ["sequences", "seq_len", "target_len", "calls"]
    return {"columns": columns, "rows": [list(row) for row in batches], "unit": "calls", "source": COUNTED}
