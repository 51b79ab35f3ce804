"""Applies log records to a RunRecord: one function per type, which checks every field before it changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.flops.counted import counted_from
from trainmeter_core.gpu_totals import SteadyGpus
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import Failure, Noted, StepBlock, flat, observe
from trainmeter_core.run_tables import At, Loss, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainmeter_core.run_record import RunRecord

MOST_TAGS = 1000
MOST = 1 << 63
LARGEST = 1e300
MOST_ENTRIES = 256
LEVELS = ("error", "warning", "info")


class Application:
    """One reading of a run: the record that is filled, and what must be remembered between its lines."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self._pids: dict[int, int] = {}
        self._losses: dict[int, dict[str, Loss]] = {}
        self._losses_before: dict[int, dict[str, Loss]] = {}
        self._failures: dict[tuple[str, Any, Any], Failure] = {}
        self._gpu_names: dict[str, str] = {}
        self._model_rank: int | None = None
        self._handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "process": self._process,
            "model": self._model,
            "budget": self._budget,
            "counted": self._counted,
            "steps": self._steps,
            "span": self._span,
            "losses": self._tags,
            "tracker": self._tracker,
            "blocked": self._blocked,
            "node": self._node,
            "gpu": self._gpu,
            "hardware": self._hardware,
            "verdict": self._verdict,
            "failure": self._failure,
            "dropped": self._dropped,
            "recovered": self._recovered,
            "exit": self._exit,
        }

    def apply(self, fields: Mapping[str, Any]) -> bool:
        """Apply one record; False for a type not known here.

        Raises KeyError, TypeError or ValueError for a record without its fields; nothing has changed then.
        """
        handler = self._handlers.get(_text(fields["type"]))
        t = _number(fields["t"]) if "t" in fields else None
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
        for name, check in _IDENTITY_FIELDS.items():
            _take(identity, name, fields, check)
        for name, check in _OPTION_FIELDS.items():
            _take(options, name, fields, check)
        _take(self.record.software, "trainmeter", fields, _text)

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

    def _seen(self, rank: int, pid: int) -> None:
        totals = self.record.rank(rank)
        if self._pids.get(rank) == pid:
            return
        self._pids[rank] = pid
        totals.processes += 1
        self._fold_losses(rank)

    def _process(self, fields: Mapping[str, Any]) -> None:
        rank, pid, world_size = _count(fields["rank"]), _count(fields["pid"]), _count(fields["world_size"])
        local_rank = _optional(fields.get("local_rank"), _count)
        self._seen(rank, pid)
        totals = self.record.rank(rank)
        totals.world_size = self.record.world_size = world_size
        if local_rank is not None:
            totals.local_rank = local_rank
        _take(self.record.software, "python", fields, _text)
        _take(self.record.software, "torch", fields, _text)

    def _model(self, fields: Mapping[str, Any]) -> None:
        rank, description = _count(fields["rank"]), _object(fields["description"])
        if self._model_rank is not None and rank > self._model_rank:
            return
        self._model_rank = rank
        self.record.model = dict(description)
        _take(self.record, "shape_source", fields, _text)

    def _budget(self, fields: Mapping[str, Any]) -> None:
        steps, source = _count(fields["budget_steps"]), _text(fields["budget_source"])
        options = self.record.options
        if options.budget_source == "user":
            return
        options.budget_steps, options.budget_source = steps, source

    def _counted(self, fields: Mapping[str, Any]) -> None:
        _seconds(fields["seconds"])
        counted = counted_from({**fields, "counts": [_batch(entry) for entry in _list(fields["counts"])]})
        if _count(fields["rank"]) == 0:  # the only rank that counts
            self.record.counted = counted

    def _steps(self, fields: Mapping[str, Any]) -> None:
        rank, pid = _count(fields["rank"]), _count(fields["pid"])
        span = fields.get("step_time_s")
        block = StepBlock(
            n=_count(fields["n"]),
            skipped=_count(fields.get("skipped", 0)),
            first=_optional(fields.get("first"), _count),
            last=_optional(fields.get("last"), _count),
            tokens=_optional(fields["tokens"], _count),
            samples=_optional(fields["samples"], _count),
            micro_batches=_optional(fields["micro_batches"], _count),
            wall_s=_seconds(fields["wall_s"]),
            time_s={kind: _optional(value, _seconds) for kind, value in _object(fields["time"]).items()},
            batches=[_batch(entry) for entry in _list(fields["batches"])],
            step_time_s=None if span is None else (_seconds(span[0]), _seconds(span[1])),
            startup=bool(fields.get("startup", False)),
        )
        t = _number(fields.get("t", 0.0))
        self._seen(rank, pid)
        self.record.add_steps(rank, block)
        if block.startup:
            self.record.steady_gpus.started(t)
        elif block.n or block.skipped:
            self.record.steady_gpus.stepped()

    def _span(self, fields: Mapping[str, Any]) -> None:
        kind, seconds = _text(fields["kind"]), _seconds(fields["seconds"])
        if kind in self.record.spans or len(self.record.spans) < MOST_ENTRIES:
            self.record.spans.setdefault(kind, Statistics()).add(seconds)

    def _tags(self, fields: Mapping[str, Any]) -> None:
        rank = _count(fields["rank"])
        tags = {tag: _loss(track) for tag, track in _object(fields["tags"]).items()}
        known = self._losses.setdefault(rank, {})
        known.update({tag: loss for tag, loss in tags.items() if tag in known or len(known) < MOST_TAGS})

    def _fold_losses(self, rank: int) -> None:
        before = self._losses_before.setdefault(rank, {})
        for tag, loss in self._losses.pop(rank, {}).items():
            before[tag] = before[tag].then(loss) if tag in before else loss

    def _tracker(self, fields: Mapping[str, Any]) -> None:
        where = {_text(key): _text(value) for key, value in _object(fields["where"]).items()}
        entry = {"tracker": _text(fields["tracker"]), "where": where}
        if entry not in self.record.trackers and len(self.record.trackers) < MOST_ENTRIES:
            self.record.trackers.append(entry)

    def _blocked(self, fields: Mapping[str, Any]) -> None:
        # Told as a share of the whole run, which only its end knows; until then the seconds are in `logging` time.
        _text(fields["call"]), _seconds(fields["seconds"])

    def _node(self, fields: Mapping[str, Any]) -> None:
        observe(self.record.node, _object(fields["readings"]))

    def _gpu(self, fields: Mapping[str, Any]) -> None:
        begin = _number(fields.get("t", 0.0)) - _seconds(fields.get("seconds", 0.0))
        for uuid, readings in _object(fields["gpus"]).items():
            if uuid in self.record.gpus or len(self.record.gpus) < MOST_ENTRIES:
                table = self.record.gpus.setdefault(uuid, {})
                observe(table, _object(readings), limit=MOST_ENTRIES)
                known = ((name, value) for name, value in flat(readings) if name in table)
                self.record.steady_gpus.add(uuid, known, begin)

    def _verdict(self, fields: Mapping[str, Any]) -> None:
        noted = Noted(_text(fields["code"]), _text(fields["level"]), _text(fields["sentence"]))
        if noted.level not in LEVELS:
            raise ValueError("not a level")
        if noted not in self.record.noted and len(self.record.noted) < MOST_ENTRIES:
            self.record.noted.append(noted)

    def _hardware(self, fields: Mapping[str, Any]) -> None:
        found = [(_text(gpu.get("uuid", str(at))), _text(gpu["name"])) for at, gpu in _numbered(fields.get("gpus"))]
        hardware, software, options = self.record.hardware, self.record.software, self.record.options
        if "gpus" in fields and fields["gpus"] is not None:
            self._gpu_names.update(found)
            if not found:  # the model turned out to run without them
                self._gpu_names.clear()
                self.record.gpus.clear()
                self.record.steady_gpus = SteadyGpus()
            hardware.gpus = list(self._gpu_names.values())
        elif "gpus_absent" in fields and isinstance(hardware.gpus, Absent):
            hardware.gpus = Absent(_text(fields["gpus_absent"]))
        for name, check in _HARDWARE_FIELDS.items():
            _take(hardware, name, fields, check)
        _take(software, "driver", fields, _text)
        _take(software, "cuda", fields, _text)
        if isinstance(options.peak_tflops, Absent):
            for name in ("peak_tflops", "peak_source", "peak_dtype"):
                _take(options, name, fields, _OPTION_FIELDS[name])
        if isinstance(options.peak_tflops, Absent) and "peak_absent" in fields:
            options.peak_tflops = Absent(_text(fields["peak_absent"]))

    def _failure(self, fields: Mapping[str, Any]) -> None:
        failure = Failure(_text(fields["site"]), _count(fields["count"]), _text(fields["first"]))
        key = (failure.site, str(fields.get("rank")), str(fields.get("pid")))
        if key in self._failures or len(self._failures) < MOST_ENTRIES:
            self._failures[key] = failure

    def _dropped(self, fields: Mapping[str, Any]) -> None:
        if "kind" in fields:
            what = f"a {_text(fields['kind'])} record of {_count(fields['bytes'])} bytes was too long to keep"
            self._failure({**fields, "site": "side file", "count": 1, "first": what})
            return
        rank, records = _count(fields["rank"]), _count(fields["records"])
        self.record.rank(rank).dropped_records += records

    def _recovered(self, fields: Mapping[str, Any]) -> None:
        _count(fields["steps"])  # the steps themselves stand in records of their own

    def _exit(self, fields: Mapping[str, Any]) -> None:
        code, signal = _optional(fields["code"], _integer), _optional(fields["signal"], _count)
        seconds = _seconds(fields["seconds"])
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


def _optional(value: Any, check: Callable[[Any], Any]) -> Any:
    return None if value is None else check(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not an integer")
    return value


def _count(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not an integer")
    if not 0 <= value < MOST:
        raise ValueError("not a count")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    if not -LARGEST < value < LARGEST:  # 1e999 and integers of a thousand digits are valid JSON
        raise ValueError("out of range")
    return value


def _seconds(value: Any) -> float:
    if type(value) is not float:
        value = float(_number(value))
    if not 0.0 <= value < LARGEST:
        raise ValueError("not a duration")
    return value  # type: ignore[no-any-return]


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError("not positive")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _words(value: Any) -> list[str]:
    return [_text(word) for word in _list(value)]


def _numbered(gpus: Any) -> list[tuple[int, Mapping[str, Any]]]:
    return [(at, _object(gpu)) for at, gpu in enumerate(_list(gpus or []))]


def _batch(entry: Any) -> tuple[int, int, int, int]:
    sequences, seq_len, target_len, calls = (_count(number) for number in _list(entry))
    return sequences, seq_len, target_len, calls


def _at(pair: Any) -> At:
    value, step = _list(pair)
    return At(_optional(value, _number), _optional(step, _count))


def _loss(track: Any) -> Loss:
    fields = _object(track)
    return Loss(_at(fields["first"]), _at(fields["last"]), _at(fields["best"]), _count(fields["count"]))


_IDENTITY_FIELDS: dict[str, Callable[[Any], Any]] = {
    "run_id": _text,
    "name": _text,
    "script": _text,
    "command": _words,
    "started": _number,
    "git_commit": _text,
    "git_dirty": _flag,
}
_OPTION_FIELDS: dict[str, Callable[[Any], Any]] = {
    "convention": _text,
    "peak_tflops": _positive,
    "peak_source": _text,
    "peak_dtype": _text,
    "budget_tokens": _count,
    "budget_steps": _count,
    "budget_flops": _positive,
    "budget_hours": _positive,
    "budget_source": _text,
}
_HARDWARE_FIELDS: dict[str, Callable[[Any], Any]] = {
    "cpu": _text,
    "cpu_cores": _count,
    "memory_bytes": _count,
    "interconnect": _text,
    "reference_mhz": _positive,
    "bandwidth_bytes_per_s": _positive,
}
