"""The run directory's reader: what was written comes back, whatever happened to the file meanwhile."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RunRecord, StepBlock
from trainmeter_core.run_tables import MOST_SHAPES
from trainmeter_core.runlog import read
from trainmeter_core.runlog.format import RECORDS
from trainmeter_core.runlog.write import RunWriter
from trainmeter_core.series import TIME_KINDS

counts = st.integers(0, 10**12)
seconds = st.floats(0, 1e4, allow_nan=False)


@st.composite
def step_records(draw):
    n = draw(st.integers(0, 5))
    return {
        "type": "steps",
        "t": draw(st.integers(10**9, 2 * 10**9)),
        "rank": draw(st.integers(0, 3)),
        "pid": draw(st.integers(100, 102)),
        "first": 0,
        "last": n,
        "n": n,
        "skipped": draw(st.integers(0, 2)),
        "tokens": draw(st.none() | counts),
        "samples": draw(counts),
        "micro_batches": draw(counts),
        "wall_s": draw(seconds),
        "time": draw(st.dictionaries(st.sampled_from(TIME_KINDS), st.none() | seconds)),
        "batches": draw(st.lists(st.lists(st.integers(0, 4096), min_size=4, max_size=4), max_size=3)),
        "step_time_s": draw(st.none() | st.tuples(seconds, seconds).map(sorted)),
        "startup": draw(st.booleans()),
    }


junk = st.sampled_from(
    [
        b"\n",
        b"not json\n",
        b"\xff\xfe\x00\n",
        b"[1, 2]\n",
        b"null\n",
        b'{"no": "type"}\n',
        b'{"type": 7}\n',
        b'{"type": "steps", "rank": "zero"}\n',
        b'{"type": "steps", "rank": 0, "pid": 1, "n": -1, "wall_s": NaN}\n',
        b'{"type": "exit", "t": 1e999, "code": 0, "signal": null, "seconds": 1}\n',
        b'{"type": "dropped", "rank": 0, "records": true}\n',
        b'{"type": "exit", "code": 0, "signal": null, "seconds": 1' + b"0" * 400 + b"}\n",
        b"[" * 200_000 + b"\n",
        b'{"type": "steps", "rank": 0, "pid": 1, "n": ' + b"9" * 5000 + b"}\n",
    ]
)
newer = st.sampled_from(
    [
        b'{"type": "from the future", "t": 5, "x": [1]}\n',
        b'{"type": "node", "t": 5, "readings": {}, "and": {"more": 1}}\n',
    ]
)


def expected(records) -> RunRecord:
    record = RunRecord()
    for fields in records:
        span = fields["step_time_s"]
        names = ("n", "skipped", "first", "last", "tokens", "samples", "micro_batches", "wall_s", "batches", "startup")
        block = StepBlock(
            **{name: fields[name] for name in names}, time_s=fields["time"], step_time_s=tuple(span) if span else None
        )
        record.add_steps(fields["rank"], block)
    return record


@settings(max_examples=60, deadline=None)
@given(records=st.lists(step_records(), max_size=12), data=st.data())
def test_totals_come_back_from_among_junk_unknown_records_and_a_torn_tail(tmp_path_factory, records, data):
    writer = RunWriter.create("train.py", [], runs=tmp_path_factory.mktemp("runs"))
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    noise = [
        (data.draw(st.integers(0, len(lines))), data.draw(junk | newer)) for _ in range(data.draw(st.integers(0, 6)))
    ]
    for at, line in sorted(noise, reverse=True, key=lambda each: each[0]):
        lines.insert(at, line)
    torn = data.draw(st.sampled_from([b"", b'{"type": "st', b'{"type":"steps","t":1,"rank":0,"pid":1,"n":5', b"\xc3"]))
    (writer.directory / "log.jsonl").write_bytes(b"".join(lines) + torn)

    record, true = read.read_run(writer.directory), expected(records)

    for totals in record.ranks.values():
        totals.processes = 0
    assert record.ranks == true.ranks
    assert list(record.batches) == list(true.batches)
    assert list(record.steady_batches) == list(true.steady_batches)
    assert record.notes.torn_tail == bool(torn)
    is_junk = [line for _, line in noise if b"future" not in line and b"readings" not in line]
    assert record.notes.junk_lines == len(is_junk)
    assert record.notes.unknown_records == sum(b"future" in line for _, line in noise)


def log_of(tmp_path, *records) -> RunRecord:
    writer = RunWriter.create("train.py", ["python", "train.py"], runs=tmp_path)
    writer.append_many(records)
    return read.read_run(writer.directory)


def steps(n=1, pid=1, rank=0, startup=False, **fields):
    record = {
        "type": "steps", "rank": rank, "pid": pid, "first": 0, "last": n, "n": n, "tokens": 8 * n, "samples": n,
        "micro_batches": n, "wall_s": float(n), "time": {"step": float(n)}, "batches": [[1, 8, 0, n]],
        "step_time_s": [1.0, 1.0], "startup": startup,
    }  # fmt: skip
    return {**record, **fields}


def test_a_restarted_process_goes_on_where_its_rank_stopped(tmp_path):
    first = [steps(1, startup=True), steps(10), {"type": "losses", "rank": 0, "tags": tags(3.0, 2.0, 1.5, 11)}]
    again = [
        steps(1, pid=2, startup=True),
        steps(5, pid=2),
        {"type": "losses", "rank": 0, "tags": tags(2.1, 1.9, 1.8, 6)},
    ]
    record = log_of(tmp_path, *first, *again)
    totals = record.ranks[0]
    assert (totals.steps, totals.tokens, totals.steady_steps, totals.startup_s) == (17, 136, 15, 2.0)
    assert record.restarts == 1
    loss = record.losses["loss"]
    assert (loss.first.value, loss.last.value, loss.best.value, loss.count) == (3.0, 1.9, 1.5, 17)


def tags(first, last, best, count):
    return {"loss": {"first": [first, 0], "last": [last, 9], "best": [best, 5], "count": count}}


def test_losses_of_one_process_are_told_again_and_again_and_counted_once(tmp_path):
    told = [{"type": "losses", "rank": 0, "tags": tags(3.0, 3.0 - at, 3.0 - at, at)} for at in (1, 2)]
    record = log_of(tmp_path, steps(1), *told)
    assert record.losses["loss"].count == 2


def test_the_tail_after_the_last_step_is_wall_time_and_no_steady_time(tmp_path):
    record = log_of(tmp_path, steps(1, startup=True), steps(4), steps(0, wall_s=9.0, time={"checkpoint": 8.0}))
    totals = record.ranks[0]
    assert totals.steady_wall_s == 4.0
    assert totals.wall_s == 14.0
    assert totals.time_s["checkpoint"] == 8.0
    assert totals.time_s["other"] == 1.0


def test_tokens_that_were_not_seen_in_one_step_make_the_sum_absent(tmp_path):
    totals = log_of(tmp_path, steps(3), steps(1, tokens=None), steps(3)).ranks[0]
    assert totals.tokens == Absent("tokens were not seen in every step")
    assert totals.samples == 7


def test_a_kind_of_time_that_cannot_be_seen_is_remembered(tmp_path):
    totals = log_of(tmp_path, steps(1, time={"step": 0.5, "data_wait": None})).ranks[0]
    assert totals.unseen_kinds == {"data_wait": True}
    assert totals.time_s["other"] == 0.5


def test_a_reading_beyond_any_machine_is_left_out(tmp_path):
    record = log_of(tmp_path, {"type": "node", "readings": {"a": 10**400, "b": 1e308, "c": 2}})
    assert list(record.node) == ["c"]


def test_several_nodes_write_under_one_run(tmp_path):
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    writer.append_many([steps(2, rank=0)])
    for node in (1, 2):
        (writer.directory / f"node{node}").mkdir()
        (writer.directory / f"node{node}" / "log.jsonl").write_text(json.dumps(steps(2, rank=node)) + "\n")
    assert sorted(read.read_run(writer.directory).ranks) == [0, 1, 2]


def test_a_line_longer_than_any_record_is_skipped_without_being_held(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "LONGEST_LINE", 1000)
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    with (writer.directory / "log.jsonl").open("ab") as log:
        log.write(b"x" * 5500 + b"\n" + json.dumps(steps(2)).encode() + b"\n")
    record = read.read_run(writer.directory)
    assert record.notes.junk_lines == 1
    assert record.ranks[0].steps == 2


def test_a_run_whose_run_json_is_broken_still_tells_its_log(tmp_path):
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    writer.append_many([steps(2)])
    (writer.directory / "run.json").write_text("{")
    record = read.read_run(writer.directory)
    assert record.identity.run_id == Absent("run.json cannot be read")
    assert record.ranks[0].steps == 2


def test_a_directory_without_run_json_and_log_is_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no run\.json"):
        read.read_run(tmp_path)


def test_what_a_log_says_of_machine_trackers_failures_and_end(tmp_path):
    gpu = {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1"}
    tracker = {"type": "tracker", "rank": 0, "tracker": "tensorboard", "where": {"logdir": "runs/x"}}
    record = log_of(
        tmp_path,
        {
            "type": "process",
            "rank": 0,
            "local_rank": 0,
            "world_size": 2,
            "pid": 1,
            "python": "3.12.1",
            "torch": "2.13.0",
        },
        {"type": "hardware", "gpus": [gpu], "cpu": "EPYC", "cpu_cores": 8, "driver": "570", "peak_tflops": 989.4},
        {"type": "hardware", "gpus": [{**gpu, "uuid": "GPU-2"}]},
        {"type": "node", "readings": {"cpu": {"user": 10.0}}},
        {"type": "node", "readings": {"cpu": {"user": 30.0}}},
        {"type": "gpu", "gpus": {"GPU-1": {"power_w": 300}}},
        {"type": "span", "rank": 0, "kind": "checkpoint", "start": 1e9, "seconds": 2.5},
        tracker,
        tracker,
        {"type": "failure", "site": "tap", "count": 1, "first": "KeyError", "pid": 1},
        {"type": "failure", "site": "tap", "count": 3, "first": "KeyError", "pid": 1},
        {"type": "failure", "site": "tap", "count": 2, "first": "KeyError", "pid": 2},
        {"type": "dropped", "rank": 0, "records": 4},
        {"type": "dropped", "rank": 0, "records": 5},
        {"type": "dropped", "kind": "model", "bytes": 9_000_000},
        {"type": "exit", "code": None, "signal": 9, "seconds": 12.0},
    )
    assert record.hardware.gpus == [gpu["name"]] * 2
    assert (record.options.peak_tflops, record.world_size, record.software.torch) == (989.4, 2, "2.13.0")
    assert (record.node["cpu/user"].mean, record.node["cpu/user"].low, record.node["cpu/user"].high) == (20, 10, 30)
    assert record.gpus["GPU-1"]["power_w"].count == 1
    assert record.spans["checkpoint"].total == 2.5
    assert record.trackers == [{"tracker": "tensorboard", "where": {"logdir": "runs/x"}}]
    assert [(failure.site, failure.count) for failure in record.failures] == [("tap", 5), ("side file", 1)]
    assert record.ranks[0].dropped_records == 9
    assert (record.end.signal, record.end.seconds) == (9, 12.0)


def test_a_place_that_is_told_twice_is_one_place_with_all_that_was_told(tmp_path):
    writer = RunWriter.create("train.py", ["python"], runs=tmp_path)
    for tracker, where in [
        ("mlflow", {"run_id": "1"}),
        ("wandb", {"run_id": "1"}),
        ("mlflow", {"run_id": "1", "experiment_id": "7"}),
        ("mlflow", {"run_id": "1"}),
        ("mlflow", {"run_id": "2"}),
    ]:
        writer.append("tracker", rank=0, tracker=tracker, where=where)
    assert read.read_run(writer.directory).trackers == [
        {"tracker": "mlflow", "where": {"run_id": "1", "experiment_id": "7"}},
        {"tracker": "wandb", "where": {"run_id": "1"}},
        {"tracker": "mlflow", "where": {"run_id": "2"}},
    ]


def test_the_table_of_record_types_is_what_the_reader_knows(tmp_path):
    """Every documented required field is needed, and every type is read."""
    samples: dict[str, dict] = {
        "process": {"rank": 0, "local_rank": 0, "world_size": 1, "pid": 1},
        "model": {"rank": 0, "description": {}},
        "parallel": {"rank": 0, "batch_ranks": 2, "counts": True},
        "counted": {"rank": 0, "counts": [[2, 8, 0, 10**15]], "gaps": [], "seconds": 1.0},
        "budget": {"rank": 0, "budget_steps": 10, "budget_source": "a framework"},
        "steps": {key: value for key, value in steps(1).items() if key != "type"},
        "span": {"rank": 0, "kind": "eval", "start": 1.0, "seconds": 1.0},
        "saved": {"rank": 0, "pid": 1, "step": 1, "mark": "12:345"},
        "losses": {"rank": 0, "tags": {}},
        "tracker": {"rank": 0, "tracker": "t", "where": {}},
        "blocked": {"rank": 0, "pid": 1, "call": "wandb.init", "seconds": 30.0},
        "node": {"readings": {}},
        "gpu": {"gpus": {}},
        "hardware": {},
        "span_sums": {"rank": 0, "kind": "eval", "sums": [2, 3.0, 1.0, 2.0]},
        "node_sums": {"readings": {"cpu": [2, 3.0, 1.0, 2.0]}},
        "gpu_sums": {"gpus": {"GPU-1": {"power_w": [2, 3.0, 1.0, 2.0]}}, "seconds": 2.0},
        "merged": {"every_s": 10.0, "lines": 7},
        "verdict": {"code": "hang", "level": "error", "sentence": "s"},
        "failure": {"site": "s", "count": 1, "first": "e"},
        "dropped": {"rank": 0, "records": 1},
        "recovered": {"steps": 3},
        "resumed": {"started": 1.0, "command": ["python", "train.py"], "how": "asked"},
        "exit": {"code": 0, "signal": None, "seconds": 1.0},
    }
    assert set(samples) == set(RECORDS)
    record = log_of(tmp_path, *({"type": kind, **fields} for kind, fields in samples.items()))
    assert (record.notes.junk_lines, record.notes.unknown_records) == (0, 0)
    for kind, fields in samples.items():
        assert {field.name for field in RECORDS[kind] if field.required} <= set(fields)


def test_memory_does_not_grow_with_the_run(tmp_path):
    """A hundred thousand blocks, with more batch shapes than the table holds."""
    shapes = 3 * MOST_SHAPES
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    for start in range(0, 100_000, 10_000):
        numbers = range(start, start + 10_000)
        writer.append_many(steps(1, batches=[[1 + at % shapes, 128, 0, 1]], first=at, last=at) for at in numbers)
    tracemalloc.start()
    record = read.read_run(writer.directory)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert record.ranks[0].steps == 100_000
    assert peak < 4_000_000
    assert sum(row[0] * row[3] for row in record.batches) == sum(1 + at % shapes for at in range(100_000))
