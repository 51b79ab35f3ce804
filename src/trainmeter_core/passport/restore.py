"""The record that a passport was built from, so that a run read from a tracker is shown as any other; pure."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.flops.counted import Counted, counted_from
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import Failure, Noted, RankTotals, RunRecord
from trainmeter_core.run_tables import At, BatchCounts, Loss, Statistics
from trainmeter_core.series import TIME_KINDS

from .sheet import FORMULA, Json, reading

if TYPE_CHECKING:
    from .sheet import Value

_MOST_DEVICES = 1 << 20


def restore(passport: Json) -> RunRecord:
    """Give a record from which `build` makes this passport again.

    Sums over several ranks are put on the first of the ranks seen. Raises KeyError, TypeError or ValueError for an
    object that is not a passport of this version; check it with `schema.problems` first.
    """
    record = RunRecord()
    _identity(record, passport)
    _software(record, passport)
    _hardware(record, passport)
    _options(record, passport)
    _model(record, passport)
    _totals(record, passport)
    _observed(record, passport)
    return record


def _text(passport: Json, section: str, name: str) -> Any:
    value = passport[section][name]
    if value is not None:
        return value
    return _gap(passport, section + "." + name)


def _gap(passport: Json, field: str) -> Absent:
    reasons = [gap["reason"] for gap in passport["gaps"] if gap["field"] == field]
    return Absent(reasons[0] if reasons else "not recorded")


def _identity(record: RunRecord, passport: Json) -> None:
    known = record.identity
    for name in ("run_id", "script", "command", "git_commit", "git_dirty"):
        setattr(known, name, _text(passport, "identity", name))
    if "name" in passport["identity"]:
        known.name = passport["identity"]["name"]
    started = _text(passport, "identity", "started")
    if not isinstance(started, Absent):
        started = float(calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")))
    known.started = started
    record.trackers = [
        {"tracker": each["tracker"], "where": dict(each["where"])} for each in passport["identity"]["trackers"]
    ]


def _software(record: RunRecord, passport: Json) -> None:
    known = record.software
    for name in ("python", "torch", "cuda", "driver", "trainmeter"):
        setattr(known, name, _text(passport, "software", name))
    known.packages = dict(passport["software"]["packages"])


def _hardware(record: RunRecord, passport: Json) -> None:
    known = record.hardware
    gpus = _text(passport, "hardware", "gpus")
    known.gpus = gpus if isinstance(gpus, Absent) else [each["name"] for each in gpus for _ in range(_count(each))]
    for name in ("cpu", "interconnect"):
        setattr(known, name, _text(passport, "hardware", name))
    for name in ("cpu_cores", "memory_bytes"):
        setattr(known, name, reading(passport, "hardware." + name))
    known.reference_mhz = reading(passport, "hardware.reference_mhz")
    known.bandwidth_bytes_per_s = reading(passport, "hardware.bandwidth")
    record.world_size = _whole(reading(passport, "hardware.world_size"))


def _count(sku: Mapping[str, Any]) -> int:
    return _no_more_than(sku["count"]["value"])


def _no_more_than(count: float) -> int:
    if count > _MOST_DEVICES:  # an edited passport must not cost memory
        raise ValueError(f"{count} processes or devices")
    return int(count)


def _options(record: RunRecord, passport: Json) -> None:
    known, section = record.options, passport["options"]
    known.convention = section["convention"]
    known.peak_tflops = reading(passport, "options.peak_tflops")
    for name in ("peak_source", "peak_dtype", "budget_source"):
        setattr(known, name, _text(passport, "options", name))
    for name in ("budget_tokens", "budget_steps", "budget_flops", "budget_hours"):
        setattr(known, name, reading(passport, "options." + name))


def _model(record: RunRecord, passport: Json) -> None:
    record.model = _text(passport, "model", "description")
    record.shape_source = _text(passport, "model", "shape_source")


def _totals(record: RunRecord, passport: Json) -> None:
    seen = reading(passport, "hardware.ranks_seen")
    if isinstance(seen, Absent):  # a source that knew the sum over ranks alone
        totals = record.summed = RankTotals()
    elif seen < 1:
        return
    else:
        for rank in range(_no_more_than(seen)):
            record.rank(rank)
        totals = record.ranks[0]
    share = _share(record, len(record.ranks))
    totals.steps = int(passport["data"]["steps"]["value"])
    totals.skipped = int(passport["data"]["steps_skipped"]["value"])
    totals.processes = int(passport["time"]["restarts"]["value"]) + 1
    for name in ("tokens", "samples", "micro_batches"):
        setattr(totals, name, _part(reading(passport, "data." + name), share))
    _steady(totals, passport, share)
    _seconds(totals, passport)
    record.batches = _batches(passport, "data")
    record.steady_batches = _batches(passport, "steady")
    table = passport["data"]["counted"]
    absent = _gap(passport, "data.counted").reason
    record.counted = Counted(absent=absent) if table is None else counted_from({**table, "counts": table["rows"]})


def _steady(totals: RankTotals, passport: Json, share: tuple[int, int]) -> None:
    steps = reading(passport, "steady.steps")
    seconds = reading(passport, "steady.seconds")
    totals.steady_steps = 0 if isinstance(steps, Absent) else int(steps)
    totals.steady_wall_s = 0.0 if isinstance(seconds, Absent) else float(seconds)
    totals.steady_tokens = _part(reading(passport, "steady.tokens"), share)
    totals.steady_samples = _part(reading(passport, "steady.samples"), share)
    totals.shortest_step_s = reading(passport, "steady.shortest_step_s")
    totals.longest_step_s = reading(passport, "steady.longest_step_s")


def _seconds(totals: RankTotals, passport: Json) -> None:
    for kind in TIME_KINDS:
        seconds = reading(passport, "time.rank_seconds." + kind)
        if isinstance(seconds, Absent):
            totals.unseen_kinds[kind] = True
        else:
            totals.time_s[kind] = float(seconds)
    totals.wall_s = sum(totals.time_s.values())
    totals.startup_s = reading(passport, "time.startup_s")


def _share(record: RunRecord, seen: int) -> tuple[int, int]:
    """Ranks seen over all ranks, where a passport's counts were scaled up to all."""
    world_size = record.world_size
    return (1, 1) if isinstance(world_size, Absent) or not 0 < seen < world_size else (seen, world_size)


def _part(value: Value, share: tuple[int, int]) -> Any:
    if isinstance(value, Absent) or share == (1, 1):
        return _whole(value)
    seen, everyone = share
    exact = isinstance(value, int) and value * seen % everyone == 0
    return value * seen // everyone if exact else _whole(value * seen / everyone)


def _whole(value: Value) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _batches(passport: Json, section: str) -> BatchCounts:
    counts = BatchCounts()
    table = passport[section]["batches"]
    for sequences, seq_len, target_len, calls in () if table is None else table["rows"]:
        counts.add(sequences, seq_len, target_len, calls)
    return counts


def _observed(record: RunRecord, passport: Json) -> None:
    record.losses = {tag: _loss(loss) for tag, loss in passport["losses"].items()}
    record.spans = {
        kind: Statistics(int(span["count"]["value"]), float(span["seconds"]["value"]), 0.0, 0.0)
        for kind, span in passport["time"]["spans"].items()
    }
    record.node = _statistics(passport["readings"]["node"])
    record.gpus = {uuid: _statistics(table) for uuid, table in passport["readings"]["gpus"].items()}
    _steady_gpus(record, passport)
    record.noted = [
        Noted(each["code"], each["level"], each["sentence"])
        for each in passport["verdicts"]
        if each["source"] != FORMULA
    ]
    known = passport["observation"]
    record.failures = [Failure(each["site"], int(each["count"]["value"]), each["first"]) for each in known["failures"]]
    for name in ("lines", "junk_lines", "unknown_records"):
        setattr(record.notes, name, int(known[name]["value"]))
    record.notes.torn_tail = known["torn_tail"]
    for totals in list(record.totals())[:1]:
        totals.dropped_records = int(known["dropped_step_records"]["value"])
    status = reading(passport, "ends.status")
    if not isinstance(status, Absent):
        setattr(record.end, "signal" if passport["ends"]["how"] == "killed" else "code", int(status))
    record.end.seconds = reading(passport, "time.wall_s")


def _steady_gpus(record: RunRecord, passport: Json) -> None:
    """The means as so many samples of one value each; only the greatest number of them is in a passport."""
    samples = int(passport["steady"]["gpu_samples"]["value"])
    for uuid, means in passport["steady"]["gpus"].items():
        record.steady_gpus.table[uuid] = {
            name: Statistics(samples, each["value"] * samples, each["value"], each["value"])
            for name, each in means.items()
        }


def _loss(loss: Json) -> Loss:
    first, last, best = (_at(loss[which]) for which in ("first", "last", "best"))
    return Loss(first, last, best, int(loss["count"]["value"]))


def _at(logged: Json) -> At:
    value, step = logged["value"], logged["step"]
    return At(None if value is None else float(value["value"]), None if step is None else int(step["value"]))


def _statistics(table: Json) -> dict[str, Statistics]:
    return {
        name: Statistics(1, each["mean"]["value"], each["min"]["value"], each["max"]["value"])
        for name, each in table.items()
    }
