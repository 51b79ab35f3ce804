"""Applies log records to a RunRecord: one function per type, which checks every field before it changes anything."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from trainmeter_core.flops.counted import counted_from
from trainmeter_core.gpu_totals import SteadyGpus
from trainmeter_core.readings import Absent
from trainmeter_core.restarts import Lives
from trainmeter_core.run_record import UNKNOWN, End, Failure, Noted, flat, include, observe
from trainmeter_core.run_tables import Loss, Statistics

from .blocks import step_block
from .field_types import (
    BUDGETS,
    HARDWARE_FIELDS,
    IDENTITY_FIELDS,
    OPTION_FIELDS,
    as_array,
    as_batch,
    as_count,
    as_flag,
    as_integer,
    as_number,
    as_numbered,
    as_optional,
    as_positive,
    as_seconds,
    as_sums,
    as_table,
    as_table_of_sums,
    as_text,
    as_track,
    as_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainmeter_core.restarts import Life
    from trainmeter_core.run_record import RunRecord

MOST_TAGS = 1000
MOST_ENTRIES = 256
LEVELS = ("error", "warning", "info")


class Application:
    """One reading of a run: the record that is filled, and what must be remembered between its lines."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self._energy_before: dict[str, float] = {}
        self._losses: dict[int, dict[str, Loss]] = {}
        self._losses_before: dict[int, dict[str, Loss]] = {}
        self._failures: dict[tuple[str, Any, Any], Failure] = {}
        self._gpu_names: dict[str, str] = {}
        self._model_rank: int | None = None
        self._models: list[str] = []
        self._handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "process": self._process,
            "model": self._model,
            "parallel": self._parallel,
            "budget": self._budget,
            "counted": self._counted,
            "steps": self._steps,
            "span": self._span,
            "losses": self._tags,
            "tracker": self._tracker,
            "blocked": self._blocked,
            "node": self._node,
            "gpu": self._gpu,
            "span_sums": self._span_sums,
            "node_sums": self._node_sums,
            "gpu_sums": self._gpu_sums,
            "merged": self._merged,
            "hardware": self._hardware,
            "verdict": self._verdict,
            "failure": self._failure,
            "dropped": self._dropped,
            "recovered": self._recovered,
            "saved": self._saved,
            "resumed": self._resumed,
            "exit": self._exit,
        }

    def apply(self, fields: Mapping[str, Any]) -> bool:
        """Apply one record; False for a type not known here.

        Raises KeyError, TypeError or ValueError for a record without its fields; nothing has changed then.
        """
        handler = self._handlers.get(as_text(fields["type"]))
        t = as_number(fields["t"]) if "t" in fields else None
        if handler is None:
            return False
        handler(fields)
        if t is not None:
            seen = self.record.last_seen
            self.record.last_seen = t if isinstance(seen, Absent) else max(seen, t)
        return True

    def about(self, fields: Mapping[str, Any]) -> None:
        """Apply run.json; a field of another type stays unknown."""
        identity, options = self.record.identity, self.record.options
        for name, check in IDENTITY_FIELDS.items():
            _take(identity, name, fields, check)
        for name, check in OPTION_FIELDS.items():
            _take(options, name, fields, check)
        _take(self.record.software, "trainmeter", fields, as_text)

    def state(self) -> dict[str, Any]:
        """Everything that the lines so far came to, for a snapshot."""
        return {name: value for name, value in vars(self).items() if name != "_handlers"}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot. Raises TypeError for a state of another shape; nothing has changed then."""
        if state.keys() != self.state().keys():
            raise TypeError("not a state of this version")
        self.__dict__.update(state)

    def close(self) -> None:
        """Bring together what only the end of the log decides."""
        if len(self._models) > 1:
            self.record.model = Absent(
                f"{len(self._models)} models were trained in one run, and batches do not tell which one they fed"
            )
        for rank in sorted(set(self._losses) | set(self._losses_before)):
            self._fold_losses(rank)
            for tag, loss in self._losses_before[rank].items():
                self.record.losses.setdefault(tag, loss)
        self.record.failures = list(_by_site(self._failures.values()).values())
        names = self._gpu_names
        if names:
            self.record.hardware.gpus = list(names.values())
            # Until the model was seen, every GPU that the job could have used was sampled.
            for table in (self.record.gpus, self.record.steady_gpus.table):
                if any(uuid in names for uuid in table):
                    for uuid in [uuid for uuid in table if uuid not in names]:
                        del table[uuid]

    def _seen(self, rank: int, pid: int) -> Life:
        """The life of a process; of one that is new, the losses are another track of its rank's."""
        life, new = self.record.lives.setdefault(rank, Lives()).of(self.record.parts, pid)
        if new:
            self.record.rank(rank).processes += 1
            self._fold_losses(rank)
        return life

    def _process(self, fields: Mapping[str, Any]) -> None:
        rank, pid, world_size = as_count(fields["rank"]), as_count(fields["pid"]), as_count(fields["world_size"])
        local_rank = as_optional(fields.get("local_rank"), as_count)
        started = as_number(fields.get("started", 0.0))
        made_before = as_optional(fields.get("made_before"), as_count)
        loads = as_optional(fields.get("loads"), as_count)
        loaded = [as_text(mark) for mark in as_array(fields.get("loaded", []))]
        parent, program = as_count(fields.get("parent", 0)), as_count(fields.get("program", 0))
        life = self._seen(rank, pid)
        life.started, life.made_before, life.loads, life.loaded = started, made_before, loads, loaded
        life.parent, life.program = parent, program
        totals = self.record.rank(rank)
        totals.world_size = self.record.world_size = world_size
        if local_rank is not None:
            totals.local_rank = local_rank
        _take(self.record.software, "python", fields, as_text)
        _take(self.record.software, "torch", fields, as_text)

    def _model(self, fields: Mapping[str, Any]) -> None:
        rank, description = as_count(fields["rank"]), as_table(fields["description"])
        if self._model_rank is not None and rank > self._model_rank:
            return
        if rank != self._model_rank:
            self._models.clear()
        self._model_rank = rank
        self.record.model = dict(description)
        # How a look at the model's calls went may change; it stays the same model.
        same = {name: value for name, value in description.items() if name != "look"}
        digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
        if digest not in self._models and len(self._models) < MOST_ENTRIES:
            self._models.append(digest)
        _take(self.record, "shape_source", fields, as_text)

    def _parallel(self, fields: Mapping[str, Any]) -> None:
        rank, ranks, counts = as_count(fields["rank"]), as_count(fields["batch_ranks"]), as_flag(fields["counts"])
        self.record.batch_ranks = max(1, ranks)
        self.record.rank(rank).counts = counts

    def _budget(self, fields: Mapping[str, Any]) -> None:
        steps, source = as_count(fields["budget_steps"]), as_text(fields["budget_source"])
        options = self.record.options
        if options.budget_source == "user":
            return
        options.budget_steps, options.budget_source = steps, source

    def _counted(self, fields: Mapping[str, Any]) -> None:
        as_seconds(fields["seconds"])
        counted = counted_from({**fields, "counts": [as_batch(entry) for entry in as_array(fields["counts"])]})
        if as_count(fields["rank"]) == 0:  # the only rank that counts
            self.record.counted = counted

    def _steps(self, fields: Mapping[str, Any]) -> None:
        rank, pid, block = as_count(fields["rank"]), as_count(fields["pid"]), step_block(fields)
        t = as_number(fields.get("t", 0.0))
        self._seen(rank, pid).lasted(t, block.n, skipped=block.skipped, startup=block.startup)
        self.record.add_steps(rank, block)
        if block.startup:
            self.record.steady_gpus.started(t)
        elif block.n or block.skipped:
            self.record.steady_gpus.stepped()

    def _span(self, fields: Mapping[str, Any]) -> None:
        kind, seconds = as_text(fields["kind"]), as_seconds(fields["seconds"])
        if kind in self.record.spans or len(self.record.spans) < MOST_ENTRIES:
            self.record.spans.setdefault(kind, Statistics()).add(seconds)

    def _span_sums(self, fields: Mapping[str, Any]) -> None:
        kind, sums = as_text(fields["kind"]), as_sums(fields["sums"])
        if kind in self.record.spans or len(self.record.spans) < MOST_ENTRIES:
            self.record.spans.setdefault(kind, Statistics()).include(sums)

    def _tags(self, fields: Mapping[str, Any]) -> None:
        rank = as_count(fields["rank"])
        tags = {tag: as_track(track) for tag, track in as_table(fields["tags"]).items()}
        known = self._losses.setdefault(rank, {})
        known.update({tag: loss for tag, loss in tags.items() if tag in known or len(known) < MOST_TAGS})

    def _fold_losses(self, rank: int) -> None:
        before = self._losses_before.setdefault(rank, {})
        for tag, loss in self._losses.pop(rank, {}).items():
            before[tag] = before[tag].then(loss) if tag in before else loss

    def _tracker(self, fields: Mapping[str, Any]) -> None:
        where = {as_text(key): as_text(value) for key, value in as_table(fields["where"]).items()}
        entry = {"tracker": as_text(fields["tracker"]), "where": where}
        known = self.record.trackers
        for at, each in enumerate(known):
            # One place, of which one of the two tells more.
            if each["tracker"] == entry["tracker"] and (
                where.items() <= each["where"].items() or where.items() >= each["where"].items()
            ):
                known[at] = {**each, "where": {**each["where"], **where}}
                return
        if len(known) < MOST_ENTRIES:
            known.append(entry)

    def _blocked(self, fields: Mapping[str, Any]) -> None:
        # Told as a share of the whole run, which only its end knows; until then the seconds are in `logging` time.
        as_text(fields["call"]), as_seconds(fields["seconds"])

    def _node(self, fields: Mapping[str, Any]) -> None:
        observe(self.record.node, as_table(fields["readings"]))

    def _gpu(self, fields: Mapping[str, Any]) -> None:
        begin = as_number(fields.get("t", 0.0)) - as_seconds(fields.get("seconds", 0.0))
        for uuid, readings in as_table(fields["gpus"]).items():
            if uuid in self.record.gpus or len(self.record.gpus) < MOST_ENTRIES:
                table = self.record.gpus.setdefault(uuid, {})
                told = as_table(readings)
                if uuid in self._energy_before and "energy_j" in told:
                    told = {**told, "energy_j": as_number(told["energy_j"]) + self._energy_before[uuid]}
                observe(table, told, limit=MOST_ENTRIES)
                known = ((name, value) for name, value in flat(told) if name in table)
                self.record.steady_gpus.add(uuid, known, begin)

    def _node_sums(self, fields: Mapping[str, Any]) -> None:
        include(self.record.node, as_table_of_sums(fields["readings"]))

    def _gpu_sums(self, fields: Mapping[str, Any]) -> None:
        begin = as_number(fields.get("t", 0.0)) - as_seconds(fields["seconds"])
        sums = {uuid: as_table_of_sums(readings) for uuid, readings in as_table(fields["gpus"]).items()}
        for uuid, told in sums.items():
            if uuid in self.record.gpus or len(self.record.gpus) < MOST_ENTRIES:
                table = self.record.gpus.setdefault(uuid, {})
                if uuid in self._energy_before and "energy_j" in told:
                    told["energy_j"] = told["energy_j"].moved(self._energy_before[uuid])
                include(table, told, limit=MOST_ENTRIES)
                known = {name: each for name, each in told.items() if name in table}
                self.record.steady_gpus.add_sums(uuid, known, begin)

    def _merged(self, fields: Mapping[str, Any]) -> None:
        as_positive(fields["every_s"])
        self.record.notes.lines += as_count(fields["lines"]) - 1  # its own is none of them

    def _verdict(self, fields: Mapping[str, Any]) -> None:
        noted = Noted(as_text(fields["code"]), as_text(fields["level"]), as_text(fields["sentence"]))
        if noted.level not in LEVELS:
            raise ValueError("not a level")
        if noted not in self.record.noted and len(self.record.noted) < MOST_ENTRIES:
            self.record.noted.append(noted)

    def _hardware(self, fields: Mapping[str, Any]) -> None:
        found = [
            (as_text(gpu.get("uuid", str(at))), as_text(gpu["name"])) for at, gpu in as_numbered(fields.get("gpus"))
        ]
        hardware, software, options = self.record.hardware, self.record.software, self.record.options
        if "gpus" in fields and fields["gpus"] is not None:
            self._gpu_names.update(found)
            if not found:  # the model turned out to run without them
                self._gpu_names.clear()
                self.record.gpus.clear()
                self.record.steady_gpus = SteadyGpus()
            hardware.gpus = list(self._gpu_names.values())
        elif "gpus_absent" in fields and isinstance(hardware.gpus, Absent):
            hardware.gpus = Absent(as_text(fields["gpus_absent"]))
        for name, check in HARDWARE_FIELDS.items():
            _take(hardware, name, fields, check)
        _take(software, "driver", fields, as_text)
        _take(software, "cuda", fields, as_text)
        if isinstance(options.peak_tflops, Absent):
            for name in ("peak_tflops", "peak_source", "peak_dtype"):
                _take(options, name, fields, OPTION_FIELDS[name])
        if isinstance(options.peak_tflops, Absent) and "peak_absent" in fields:
            options.peak_tflops = Absent(as_text(fields["peak_absent"]))

    def _failure(self, fields: Mapping[str, Any]) -> None:
        failure = Failure(as_text(fields["site"]), as_count(fields["count"]), as_text(fields["first"]))
        key = (failure.site, str(fields.get("rank")), str(fields.get("pid")))
        if key in self._failures or len(self._failures) < MOST_ENTRIES:
            self._failures[key] = failure

    def _dropped(self, fields: Mapping[str, Any]) -> None:
        if "kind" in fields:
            what = f"a {as_text(fields['kind'])} record of {as_count(fields['bytes'])} bytes was too long to keep"
            self._failure({**fields, "site": "side file", "count": 1, "first": what})
            return
        rank, records = as_count(fields["rank"]), as_count(fields["records"])
        self.record.rank(rank).dropped_records += records

    def _recovered(self, fields: Mapping[str, Any]) -> None:
        as_count(fields["steps"])  # the steps themselves stand in records of their own

    def _saved(self, fields: Mapping[str, Any]) -> None:
        rank, pid = as_count(fields["rank"]), as_count(fields["pid"])
        mark, step = as_text(fields["mark"]), as_count(fields["step"])
        self._seen(rank, pid).saved(mark, step)

    def _resumed(self, fields: Mapping[str, Any]) -> None:
        """Another command went on with the run: its processes are new ones, whatever their numbers."""
        started, record = as_number(fields["started"]), self.record
        as_words(fields["command"]), as_text(fields["how"])
        record.seconds_before += record.seconds_of_part() or 0.0
        record.parts, record.part_started, record.end = record.parts + 1, started, End()
        for uuid, table in record.gpus.items():
            if "energy_j" in table:  # a sum that begins anew
                self._energy_before[uuid] = table["energy_j"].high
        if any(fields.get(name) is not None for name in BUDGETS):
            for name in BUDGETS:
                setattr(record.options, name, UNKNOWN)
        for name, check in OPTION_FIELDS.items():
            _take(record.options, name, fields, check)
        commit = fields.get("git_commit")
        if commit is not None and as_text(commit) != record.identity.git_commit:
            said = f"part {record.parts} of this run ran git commit {commit}"
            record.noted.append(Noted("another-commit", "info", said))

    def _exit(self, fields: Mapping[str, Any]) -> None:
        code, signal = as_optional(fields["code"], as_integer), as_optional(fields["signal"], as_count)
        seconds = as_seconds(fields["seconds"])
        end = self.record.end
        end.code = Absent("ended by a signal") if code is None else code
        if code is None and signal is None:
            end.code = Absent("watched from outside, where an exit code is not to be seen")
        end.signal = Absent("ended by itself") if signal is None else signal
        end.seconds = seconds


def _by_site(failures: Any) -> dict[str, Failure]:
    sites: dict[str, Failure] = {}
    for failure in failures:
        known = sites.get(failure.site)
        count = failure.count + (known.count if known else 0)
        sites[failure.site] = Failure(failure.site, count, known.first if known else failure.first)
    return sites


def _take(target: Any, name: str, fields: Mapping[str, Any], check: Callable[[Any], Any]) -> None:
    value = fields.get(name)
    if value is None:
        return
    try:
        setattr(target, name, check(value))
    except (TypeError, ValueError):  # another type than ours: stays unknown
        return
