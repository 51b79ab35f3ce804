"""A log stays within its bound however long the run, and says the same: totals, passport, and coarser rows."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmeter_core.outside.replay import rows
from trainmeter_core.passport.build import build
from trainmeter_core.passport.check import check
from trainmeter_core.readings import Absent
from trainmeter_core.runlog import bound
from trainmeter_core.runlog.bound import LogBound
from trainmeter_core.runlog.coarser import Coarser
from trainmeter_core.runlog.format import LOG_FILE, NEW_LOG_FILE
from trainmeter_core.runlog.read import RunReader, read_run
from trainmeter_core.runlog.write import RunWriter, has_writer, line_of

START = 1_700_000_000.0
TIMES = ("step", "data_wait", "checkpoint", "other")


def steps(t, rank=0, pid=1, n=1, **fields):
    return {
        "type": "steps", "t": t, "rank": rank, "pid": pid, "first": 1, "last": n, "n": n, "skipped": 0,
        "tokens": 8 * n, "samples": n, "micro_batches": n, "wall_s": 0.5, "time": {"step": 0.3, "other": 0.2},
        "batches": [[1, 8, 0, n]], "step_time_s": [0.1, 0.2], "startup": False, **fields,
    }  # fmt: skip


seconds = st.floats(0, 1e4, allow_nan=False)
readings = st.dictionaries(st.sampled_from(["cpu_pct", "load"]), st.floats(-1e6, 1e6) | st.none())
rank, pid = st.integers(0, 2), st.integers(1, 3)
records = st.one_of(
    st.builds(
        steps, st.none(), rank, pid, st.integers(0, 3), skipped=st.integers(0, 2), tokens=st.none() | st.integers(0, 99),
        unseen=st.integers(0, 1), wall_s=seconds, startup=st.booleans(), last=st.none() | st.integers(0, 99),
        time=st.dictionaries(st.sampled_from(TIMES[:3]), st.none() | seconds),
        batches=st.lists(st.tuples(*[st.integers(0, 9)] * 4), max_size=3),
        step_time_s=st.none() | st.tuples(seconds, seconds).map(sorted),
    ),
    st.fixed_dictionaries({"type": st.just("node"), "readings": readings}),
    st.fixed_dictionaries({
        "type": st.just("gpu"), "seconds": st.just(1.0),
        "gpus": st.dictionaries(
            st.sampled_from(["GPU-1", "GPU-2"]),
            st.fixed_dictionaries({"power_w": st.integers(0, 700), "energy_j": st.integers(0, 10**9),
                                   "throttle": st.fixed_dictionaries({"power": st.integers(0, 100)})}),
        ),
    }),
    st.fixed_dictionaries({"type": st.just("span"), "rank": rank, "kind": st.sampled_from(["eval", "checkpoint"]),
                           "start": st.just(0.0), "seconds": seconds}),
    st.fixed_dictionaries({"type": st.just("saved"), "rank": rank, "pid": pid, "step": st.integers(0, 99),
                           "mark": st.sampled_from(["", "7.9"])}),
    st.fixed_dictionaries({
        "type": st.just("losses"), "rank": rank, "pid": pid,
        "tags": st.dictionaries(st.sampled_from(["loss", "val/loss"]), st.builds(
            lambda value, count: {"first": [value, 1], "last": [value, 9], "best": [value, 4], "count": count},
            st.none() | st.floats(-9, 9), st.integers(1, 9),
        )),
    }),
    st.builds(lambda rank, pid: {"type": "process", "rank": rank, "pid": pid, "world_size": 3, "local_rank": rank}, rank, pid),
    st.fixed_dictionaries({"type": st.just("dropped"), "rank": rank, "records": st.integers(0, 9)}),
    st.fixed_dictionaries({"type": st.just("verdict"), "code": st.just("xid"), "level": st.just("error"),
                           "sentence": st.sampled_from(["Xid 13", "Xid 79"])}),
    st.fixed_dictionaries({"type": st.just("resumed"), "started": st.just(START), "command": st.just(["x"]), "how": st.just("")}),
    st.just({"type": "hardware", "gpus": [{"uuid": "GPU-1", "name": "X"}, {"uuid": "GPU-2", "name": "X"}]}),
    st.just({"type": "hardware", "gpus": []}),
    st.just({"type": "from the future", "x": 1}),
    st.just({"type": "steps", "rank": "zero"}),
    st.just({"type": "node", "readings": 7}),
    st.just({"type": "exit", "code": 0, "signal": None, "seconds": 9.0}),
)  # fmt: skip


def said(directory):
    """All that a log comes to; sums of floats differ in their last digits by the order in which they were added."""
    record = read_run(directory)
    return dict(flat({"record": asdict(record), "passport": {**build(record), "digest": None}}))


def flat(value, name=""):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}")
    elif isinstance(value, (list, tuple)) and value:
        for at, inner in enumerate(value):
            yield from flat(inner, f"{name}.{at}")
    elif isinstance(value, float) and math.isfinite(value):
        yield name, float(f"{value:.9g}")
    else:
        yield name, value.reason if isinstance(value, Absent) else value


def merge(directory, every_s):
    """The log merged in place."""
    log = directory / LOG_FILE
    coarser = Coarser(every_s)
    given = [each for line in log.read_bytes().splitlines(keepends=True) for each in coarser.take(line)]
    given += coarser.close()
    log.write_bytes(b"".join(each if isinstance(each, bytes) else line_of(each) for each in given))


WIDTHS = st.sampled_from([[10], [10, 20], [7, 1e5]])


@settings(deadline=None, max_examples=50)
@given(said_in_order=st.lists(st.tuples(st.floats(0, 20), records), max_size=40), widths=WIDTHS)
def test_a_merged_log_says_what_the_whole_one_said(tmp_path_factory, said_in_order, widths):
    writer = RunWriter.create("train.py", ["train.py"], runs=tmp_path_factory.mktemp("runs"), started=START)
    t = START
    for later, fields in said_in_order:
        t += later
        writer.append_many([{**fields, "t": t}])
    whole = said(writer.directory)
    for width in widths:
        merge(writer.directory, width)
        merged = said(writer.directory)
        assert merged == whole


def run_of(directory, hours, ranks=2, every_s=1.0):
    """A run as `tm` logs it: a window of each rank, the node and two GPUs in every second; restarted once."""
    writer = RunWriter.create("train.py", ["train.py"], runs=directory, started=START)
    count = int(hours * 3600 / every_s)
    for at in range(count):
        t = START + at * every_s
        part = 1 + (at > count // 3)
        lines = []
        if at in (0, count // 3 + 1):
            for rank in range(ranks):
                lines.append({"type": "process", "rank": rank, "pid": part, "world_size": ranks, "local_rank": rank})
                lines.append(steps(t, rank, part, startup=True))
        lines += [steps(t, rank, part, n=900 + at % 7, last=1000 * at) for rank in range(ranks)]
        lines.append({"type": "node", "readings": {"node/cpu_pct": at % 100, "node/load_1": at % 13 / 7}})
        lines.append({"type": "gpu", "seconds": every_s, "gpus": {
            f"GPU-{gpu}": {"power_w": 300 + at % 50, "energy_j": 300 * at} for gpu in range(2)}})  # fmt: skip
        if at % 5 == 0:
            track = {"first": [3.0, 1], "last": [1 / (at + 1), at], "best": [1 / (at + 1), at], "count": at + 1}
            lines.append({"type": "losses", "rank": 0, "pid": part, "tags": {"loss": track}})
        yield writer, [{"t": t, **line} for line in lines]


def merged_now(log_bound):
    """Wait for the merging, and let it take the log's place."""
    until = time.monotonic() + 60
    while not log_bound.ready():
        assert time.monotonic() < until
        time.sleep(0.001)
    return log_bound.take()


def test_a_long_run_stays_within_the_bound_with_the_totals_and_the_passport_of_the_whole_log(tmp_path):
    """An hour of five lines a second, in a bound of 150 kB where the whole log has 2.8 MB."""
    most = 150_000
    whole = RunWriter.create("train.py", ["train.py"], runs=tmp_path / "whole", started=START, run_id="x")
    kept = RunWriter.create("train.py", ["train.py"], runs=tmp_path / "kept", started=START, run_id="x")
    log_bound = LogBound(kept, most)
    for _, lines in run_of(tmp_path / "from", hours=1):
        whole.append_many(lines)
        kept.append_many(lines)
        while kept.size > most and merged_now(log_bound):
            pass
    assert whole.size > 15 * most
    assert kept.size == os.path.getsize(kept.directory / LOG_FILE) <= most
    assert said(kept.directory) == said(whole.directory)
    assert check(build(read_run(kept.directory))) == []
    fine, coarse = list(rows(whole.directory)), list(rows(kept.directory))
    assert 50 < len(coarse) < len(fine)
    assert coarse[-1] == fine[-1]._replace(series=coarse[-1].series)
    for name in ("step", "tokens", "samples"):
        assert coarse[-1].series["trainmeter/" + name] == fine[-1].series["trainmeter/" + name]
    assert [row.step for row in coarse] == sorted({row.step for row in coarse})
    # The second rank's newest second may come after a row.
    assert all(0 <= 16 * row.step - row.series["trainmeter/tokens"] < 8 * 910 for row in coarse)


@pytest.fixture
def long_log(tmp_path):
    """A writer with twenty minutes of log."""
    writer = RunWriter.create("train.py", ["train.py"], runs=tmp_path, started=START)
    for _, lines in run_of(tmp_path / "from", hours=0.3):
        writer.append_many(lines)
    return writer


def test_a_tm_killed_at_a_random_moment_of_the_merging_leaves_a_whole_log(long_log, tmp_path):
    """Whichever of the two files has the name: it says everything, and who goes on with it finds no other one."""
    long_log.close()
    directory, whole = long_log.directory, said(long_log.directory)
    kept = (directory / LOG_FILE).read_bytes()
    chance, outcomes = random.Random(0), set()
    began = time.monotonic()
    first = True
    for _ in range(15):
        (directory / LOG_FILE).write_bytes(kept)
        pid = os.fork()
        if not pid:
            writer = RunWriter.reopen(directory, "x")
            merged_now(LogBound(writer, 1000))
            os._exit(0)
        if first:
            os.waitpid(pid, 0)
            first, took = False, time.monotonic() - began
        else:
            time.sleep(chance.uniform(0, 1.1 * took))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        outcomes.add(os.path.getsize(directory / LOG_FILE) < len(kept))
        assert said(directory) == whole
    assert outcomes == {True, False}
    writer = RunWriter.reopen(directory, "x")
    assert not (directory / NEW_LOG_FILE).exists()
    writer.close()


def test_what_is_written_while_the_log_is_merged_is_kept_and_the_writer_stays_its_one_writer(long_log):
    log_bound = LogBound(long_log, 1000)
    log_bound.ready()
    long_log.append_many([steps(START + 1e6, n=7), {"type": "node", "t": START + 1e6, "readings": {"late": 1}}])
    before = said(long_log.directory)
    assert has_writer(long_log.directory)
    assert merged_now(log_bound)
    assert has_writer(long_log.directory)
    long_log.append("node", readings={"after": 1})
    assert said(long_log.directory).pop(".record.node.after.count") == 1
    after = said(long_log.directory)
    assert {name: value for name, value in before.items() if "steps" in name or "late" in name}.items() <= after.items()
    with pytest.raises(BlockingIOError):
        RunWriter.reopen(long_log.directory, "x")
    long_log.close()
    assert not has_writer(long_log.directory)


@pytest.mark.parametrize("own", [True, False], ids=["tm's own reader", "another reader"])
def test_a_reader_that_has_begun_reads_on_in_the_merged_log(long_log, own):
    reader = RunReader(long_log.directory)
    reader.read_on()
    log_bound = LogBound(long_log, 1000)
    assert merged_now(log_bound)
    if own:
        reader.merged()
        assert reader.behind() == 0
    long_log.append_many([steps(START + 1e6, n=7)])
    whole = read_run(long_log.directory)
    record = reader.finish()
    assert record.rank(0).steps == whole.rank(0).steps
    assert record.notes.lines == whole.notes.lines


def test_a_snapshot_of_the_log_before_it_was_merged_is_left_aside(long_log):
    reader = RunReader(long_log.directory)
    reader.read_on()
    reader.save()
    whole = said(long_log.directory)
    assert merged_now(LogBound(long_log, 1000))
    assert said(long_log.directory) == whole


def test_where_it_cannot_be_merged_the_log_goes_on_as_it_is(long_log, monkeypatch):
    whole, size = said(long_log.directory), long_log.size
    (long_log.directory / NEW_LOG_FILE).mkdir()
    log_bound = LogBound(long_log, 1000)
    assert not merged_now(log_bound)
    assert not log_bound.ready(), "not again at once"
    long_log.append("node", readings={"after": 1})
    assert long_log.size > size
    assert said(long_log.directory)[".record.ranks.0.steps"] == whole[".record.ranks.0.steps"]


def test_a_run_that_ends_meanwhile_leaves_nothing_behind(long_log):
    log_bound = LogBound(long_log, 1000)
    log_bound.ready()
    log_bound.close()
    assert sorted(os.listdir(long_log.directory)) == ["log.jsonl", "run.json"]


def test_what_cannot_be_merged_moves_the_bound(tmp_path, monkeypatch):
    """Records that stay as they are: the log is not written anew again and again."""
    writer = RunWriter.create("train.py", ["train.py"], runs=tmp_path, started=START)
    for at in range(1000):
        writer.append("tracker", rank=0, tracker="x", where={"at": str(at)})
    log_bound = LogBound(writer, 10_000)
    count = 0
    while log_bound.ready() or log_bound.merging:
        count += merged_now(log_bound)
    assert count == math.ceil(math.log2(bound._LAST_S / bound.FIRST_S))
    assert len(json.dumps(read_run(writer.directory).trackers)) > 5000
