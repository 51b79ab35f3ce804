"""The sections that tell which run it was: identity, software, hardware, model, losses, end, and what was observed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.readings import Absent

from .sheet import ASSUMED, COUNTED, MEASURED, USER, Json, Sheet

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord, Text
    from trainmeter_core.run_tables import At, Statistics

    from .formulas import Formulas

LARGEST_DESCRIPTION = 1 << 18
_NO_GPU = Absent("no GPU in this run")


def identity(record: RunRecord, sheet: Sheet) -> Json:
    """Run, script, command, start (UTC) and commit."""
    known = record.identity
    started = known.started
    section: Json = {
        "run_id": sheet.text("identity.run_id", known.run_id),
        "script": sheet.text("identity.script", known.script),
        "command": sheet.text("identity.command", known.command),
        "started": sheet.text("identity.started", started if isinstance(started, Absent) else _utc(started)),
        "git_commit": sheet.text("identity.git_commit", known.git_commit),
        "git_dirty": sheet.text("identity.git_dirty", known.git_dirty),
        "trackers": [{"tracker": each["tracker"], "where": dict(each["where"])} for each in record.trackers],
    }
    if not isinstance(known.name, Absent):
        section["name"] = known.name
    return section


def _utc(seconds: float) -> str | Absent:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):  # a clock far outside the calendar
        return Absent("the start is not a date")


def software(record: RunRecord, sheet: Sheet) -> Json:
    """Versions that ran."""
    known = record.software
    no_gpu = record.hardware.gpus == []
    return {
        "python": sheet.text("software.python", known.python),
        "torch": sheet.text("software.torch", known.torch),
        "cuda": sheet.text("software.cuda", _unless(no_gpu, known.cuda)),
        "driver": sheet.text("software.driver", _unless(no_gpu, known.driver)),
        "trainmeter": sheet.text("software.trainmeter", known.trainmeter),
        "packages": dict(sorted(known.packages.items())),
    }


def _unless(no_gpu: bool, value: Text) -> Text:
    return _NO_GPU if no_gpu and isinstance(value, Absent) else value


def hardware(record: RunRecord, sheet: Sheet) -> Json:
    """Devices of the run. `devices` divides an MFU: the job's GPUs, or one per process where there is none."""
    known = record.hardware
    gpus: Any = known.gpus
    skus: dict[str, int] = {}
    for name in [] if isinstance(gpus, Absent) else gpus:
        skus[name] = skus.get(name, 0) + 1
    listed: list[Json] = [
        {"name": name, "count": sheet.number("hardware.gpus", count, "GPUs", MEASURED)} for name, count in skus.items()
    ]
    world_size = record.world_size
    devices, source = _devices(gpus, world_size, _ranks_seen(record))
    return {
        "gpus": sheet.text("hardware.gpus", gpus if isinstance(gpus, Absent) else listed),
        "devices": sheet.number("hardware.devices", devices, "devices", source),
        "world_size": sheet.number("hardware.world_size", world_size, "processes", COUNTED),
        "ranks_seen": sheet.number("hardware.ranks_seen", _ranks_seen(record), "processes", COUNTED),
        "batch_ranks": sheet.number("hardware.batch_ranks", record.batch_ranks, "processes", COUNTED),
        "batches_seen": sheet.number("hardware.batches_seen", _batches_seen(record), "processes", COUNTED),
        "cpu": sheet.text("hardware.cpu", known.cpu),
        "cpu_cores": sheet.number("hardware.cpu_cores", known.cpu_cores, "cores", MEASURED),
        "memory_bytes": sheet.number("hardware.memory_bytes", known.memory_bytes, "bytes", MEASURED),
        "interconnect": sheet.text("hardware.interconnect", _unless(gpus == [], known.interconnect)),
        "reference_mhz": sheet.number("hardware.reference_mhz", _of_gpus(gpus, known.reference_mhz), "MHz", ASSUMED),
        "bandwidth": sheet.number(
            "hardware.bandwidth", _of_gpus(gpus, known.bandwidth_bytes_per_s), "bytes/s per device", ASSUMED
        ),
    }


def _devices(gpus: Any, world_size: Any, seen: Any) -> tuple[Any, str]:
    """The job's GPUs; those of nodes that were not seen are taken to be like those that were."""
    if isinstance(gpus, Absent) or not gpus:
        return world_size, ASSUMED
    if isinstance(world_size, Absent) or not 0 < seen < world_size:
        return len(gpus), MEASURED
    return max(1, round(len(gpus) * world_size / seen)), ASSUMED


def _of_gpus(gpus: Any, value: Any) -> Any:
    return _NO_GPU if gpus == [] and isinstance(value, Absent) else value


def _batches_seen(record: RunRecord) -> Any:
    return record.world_size if record.summed is not None else record.batch_groups()[1]


def _ranks_seen(record: RunRecord) -> Any:
    return record.world_size if record.summed is not None else len(record.ranks)


def model(description: dict[str, Any] | Absent, formulas: Formulas | Absent, sheet: Sheet) -> Json:
    """The model's description as the agent saw it, and what the formulas read from it."""

    def of_shape(name: str) -> Any:
        return formulas if isinstance(formulas, Absent) else getattr(formulas.shape, name)

    parameters = of_shape("parameters")
    active = parameters if isinstance(parameters, Absent) else parameters - of_shape("inactive_parameters")
    counts = {
        "parameters_total": parameters,
        "parameters_trainable": of_shape("trainable_parameters"),
        "parameters_active": active,
    }
    sizes = {"width": of_shape("width"), "layers": of_shape("layers")}
    source = formulas if isinstance(formulas, Absent) else formulas.shape_source
    if not isinstance(formulas, Absent) and formulas.shape.gap:
        sheet.gap("model.shape_source", formulas.shape.gap)
    return {
        "description": sheet.text("model.description", _description(description)),
        "shape_source": sheet.text("model.shape_source", source),
        "family": sheet.text("model.family", _named(of_shape("family"))),
        **sheet.numbers("model", counts, "parameters", COUNTED),
        **sheet.numbers("model", sizes, "count", COUNTED),
    }


def _named(family: str | Absent) -> str | Absent:
    return Absent("the model names none") if family == "" else family


def _description(description: dict[str, Any] | Absent) -> dict[str, Any] | Absent:
    if isinstance(description, Absent):
        return description
    if len(json.dumps(description, default=str)) > LARGEST_DESCRIPTION:
        return Absent("longer than a passport may hold")
    return description


def losses(record: RunRecord, sheet: Sheet) -> Json:
    """What the user logged: first, last and lowest value, each with its step."""
    return {
        tag: {
            "first": _logged(sheet, f"losses.{tag}.first", loss.first),
            "last": _logged(sheet, f"losses.{tag}.last", loss.last),
            "best": _logged(sheet, f"losses.{tag}.best", loss.best),
            "count": sheet.number(f"losses.{tag}.count", loss.count, "values", COUNTED),
        }
        for tag, loss in sorted(record.losses.items())
    }


def _logged(sheet: Sheet, field: str, at: At) -> Json:
    value = Absent("not finite") if at.value is None else at.value
    step = Absent("logged without a step") if at.step is None else at.step
    return {
        "value": sheet.number(field + ".value", value, "as logged", USER),
        "step": sheet.number(field + ".step", step, "steps", USER),
    }


def ends(record: RunRecord, sheet: Sheet) -> Json:
    """How it ended: "finished", "crashed" (an exit code other than 0) or "killed" (a signal)."""
    end = record.end
    unknown = Absent("no end was recorded: the run goes on, or tm itself was killed")
    if isinstance(end.code, Absent) and not isinstance(end.seconds, Absent):
        unknown = end.code
    how: Any = unknown
    status: Any = unknown
    unit = "exit code"
    if not isinstance(end.signal, Absent):
        how, status, unit = "killed", end.signal, "signal"
    elif not isinstance(end.code, Absent):
        how, status = ("crashed" if end.code else "finished"), end.code
    return {
        "how": sheet.text("ends.how", how),
        "status": sheet.number("ends.status", status, unit, MEASURED),
    }


def observation(record: RunRecord, sheet: Sheet) -> Json:
    """How complete the source of the passport is, and where trainmeter itself failed."""
    notes = record.notes
    dropped = sum(totals.dropped_records for totals in record.totals())
    if dropped:
        sheet.gap("data", f"{dropped} step records were lost: the totals are lower bounds")
    counts = {
        "lines": notes.lines,
        "junk_lines": notes.junk_lines,
        "unknown_records": notes.unknown_records,
        "dropped_step_records": dropped,
    }
    section = sheet.numbers("observation", counts, "records", COUNTED)
    section["torn_tail"] = notes.torn_tail
    section["failures"] = [
        {
            "site": failure.site,
            "count": sheet.number("observation.failures", failure.count, "failures", COUNTED),
            "first": failure.first,
        }
        for failure in record.failures
    ]
    return section


def readings(record: RunRecord, sheet: Sheet) -> Json:
    """Mean and range of every node and GPU reading, in the sampler's own units."""
    return {
        "node": _statistics(record.node, "readings.node", sheet),
        "gpus": {uuid: _statistics(table, "readings.gpus." + uuid, sheet) for uuid, table in record.gpus.items()},
    }


def _statistics(table: Mapping[str, Statistics], field: str, sheet: Sheet) -> Json:
    section: Json = {}
    for name, statistics in sorted(table.items()):
        if statistics.count == 0:
            continue
        values = {"mean": statistics.mean, "min": statistics.low, "max": statistics.high}
        section[name] = sheet.numbers(field + "." + name, values, "as sampled", MEASURED)
    return section
