"""A snapshot saves reading, and changes nothing: with it and without it a log gives the same record."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmeter_core.passport.build import build
from trainmeter_core.runlog import read, snapshot
from trainmeter_core.runlog.read import RunReader, read_run
from trainmeter_core.runlog.write import RunWriter

LINES: list[dict] = [
    {"type": "process", "rank": 0, "pid": 1, "world_size": 2, "local_rank": 0, "python": "3.12", "torch": "2.9"},
    {"type": "hardware", "gpus": [{"uuid": "GPU-1", "name": "NVIDIA H100"}], "cpu": "x", "peak_tflops": 989.4},
    {"type": "model", "rank": 0, "description": {"config": {"a": [1, 2, {"b": None}]}, "parts": []}},
    *(
        {
            "type": "steps", "rank": rank, "pid": 1 + at // 4, "first": at, "last": at, "n": 1, "tokens": 8 + at,
            "samples": None if at == 3 else 2, "micro_batches": 1, "wall_s": 0.5, "step_time_s": [0.5, 0.5],
            "time": {"step": 0.4, "data_wait": None if at < 5 else 0.01}, "batches": [[2, 4 + at, 0, 1]],
            "startup": at == 0,
        }
        for at in range(8) for rank in (0, 1)
    ),
    {"type": "losses", "rank": 0, "tags": {"loss": {"first": [3, 1], "last": [2, 4], "best": [2, 4], "count": 4}}},
    {"type": "node", "readings": {"cpu": 5.0, "disk": {"a": 1}}},
    {"type": "gpu", "gpus": {"GPU-1": {"energy_j": 7.0, "tensor_active_pct": 40.0}}, "seconds": 1.0},
    {
        "type": "steps", "rank": 0, "pid": 2, "first": 8, "last": 8, "n": 1, "tokens": 8, "samples": 2,
        "micro_batches": 1, "wall_s": 0.5, "time": {"step": 0.5}, "batches": [],
    },
    {"type": "gpu", "gpus": {"GPU-1": {"energy_j": 9.0, "tensor_active_pct": 0.0}}, "seconds": 1.0},
    {"type": "verdict", "code": "hang", "level": "error", "sentence": "No step."},
    {"type": "span", "rank": 0, "kind": "checkpoint", "start": 1.0, "seconds": 2.0},
    {"type": "failure", "rank": 0, "pid": 1, "site": "ring", "count": 2, "first": "no space"},
    {"type": "tracker", "rank": 0, "tracker": "t", "where": {"logdir": "x"}},
    {"type": "unheard of"},
    {"type": "steps", "rank": "junk"},
    {"type": "exit", "code": 0, "signal": None, "seconds": 9.0},
]  # fmt: skip


def written(directory, count=None):
    writer = RunWriter.create("train.py", ["python", "train.py"], runs=directory, run_id="x", started=1.7e9)
    writer.append_many({"t": 1.7e9 + at, **line} for at, line in enumerate(LINES[:count]))
    return writer


@settings(deadline=None, max_examples=20)
@given(at=st.integers(0, len(LINES)))
def test_a_log_read_on_from_a_snapshot_gives_the_record_of_the_whole_log(tmp_path_factory, at):
    writer = written(tmp_path_factory.mktemp("runs"), at)
    reader = RunReader(writer.directory)
    reader.read_on()
    reader.save()
    writer.append_many({"t": 1.7e9 + number, **line} for number, line in enumerate(LINES[at:], at))
    with_it = read_run(writer.directory)
    (writer.directory / snapshot.SNAPSHOT_FILE).unlink()
    whole = read_run(writer.directory)
    assert with_it == whole
    assert whole.steady_gpus.means() == {"GPU-1": {"energy_j": 7.0, "tensor_active_pct": 40.0}}
    assert [noted.code for noted in whole.noted] == ["hang"]
    assert build(with_it) == build(whole)
    assert whole.notes.junk_lines == 1


def test_what_the_snapshot_covers_is_not_read_again(tmp_path):
    writer = written(tmp_path)
    reader = RunReader(writer.directory)
    reader.read_on()
    reader.save()
    log = writer.directory / "log.jsonl"
    data = log.read_bytes()
    log.write_bytes(b"#" * (len(data) - 300) + data[-300:])
    assert read_run(writer.directory).notes.junk_lines == 1


@pytest.mark.parametrize("damage", ["cut", "another log", "edited", "another version", "no object"])
def test_a_snapshot_that_does_not_fit_is_left_aside(tmp_path, damage):
    writer = written(tmp_path)
    whole = read_run(writer.directory)
    reader = RunReader(writer.directory)
    reader.read_on()
    reader.save()
    file = writer.directory / snapshot.SNAPSHOT_FILE
    text = file.read_text()
    if damage == "cut":
        file.write_text(text[: len(text) // 2])
    elif damage == "another log":
        log = writer.directory / "log.jsonl"
        log.write_bytes(log.read_bytes().replace(b'"seconds":9.0', b'"seconds":8.0'))
        whole.end.seconds = 8.0
    elif damage == "edited":
        file.write_text(text.replace('"tokens": 8', '"tokens": 9').replace('"tokens":', '"tokens": 1'))
    elif damage == "another version":
        file.write_text(json.dumps({**json.loads(text), "trainmeter": "0.0.0"}))
    else:
        file.write_text("[1]")
    assert read_run(writer.directory) == whole
    assert not list(writer.directory.glob(".*"))


def test_who_had_to_read_a_long_log_leaves_a_snapshot_of_it(tmp_path, monkeypatch):
    """Of another version's run, or of one whose `tm` could not write it: only the first reader takes long."""
    writer = written(tmp_path)
    whole = read_run(writer.directory)
    assert not (writer.directory / snapshot.SNAPSHOT_FILE).exists(), "a short log is read as fast"
    monkeypatch.setattr(read, "_LONG", 1000)
    assert read_run(writer.directory) == whole
    assert RunReader(writer.directory).behind() == 0
    assert read_run(writer.directory) == whole


def test_another_users_directory_stays_as_it_is(tmp_path, monkeypatch):
    writer = written(tmp_path)
    monkeypatch.setattr(read, "_LONG", 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    before = sorted(path.name for path in writer.directory.iterdir())
    read_run(writer.directory)
    assert sorted(path.name for path in writer.directory.iterdir()) == before


def test_a_disk_that_is_full_costs_the_reader_nothing(tmp_path, monkeypatch):
    writer = written(tmp_path)
    whole = read_run(writer.directory)
    monkeypatch.setattr(read, "_LONG", 1000)
    (writer.directory / snapshot.SNAPSHOT_FILE).mkdir()
    assert read_run(writer.directory) == whole
    assert not list(writer.directory.glob(".*"))
