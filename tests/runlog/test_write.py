"""The run directory's writer."""

from __future__ import annotations

import errno
import json
import os
import stat

from tests.known import known
from trainmeter_core.runlog.locate import runs_directory
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_only_the_user_can_read_a_run(tmp_path):
    old = os.umask(0)
    try:
        writer = RunWriter.create("train.py", ["python", "train.py"], runs=tmp_path / "runs")
        writer.append("node", readings={"cpu": 1})
        writer.write_passport({"version": 1}, "# text")
    finally:
        os.umask(old)
    assert mode(writer.directory) == 0o700
    files = sorted(writer.directory.iterdir())
    assert [file.name for file in files] == ["log.jsonl", "passport.json", "passport.md", "run.json"]
    assert {mode(file) for file in files} == {0o600}


def test_the_directory_is_named_by_utc_time_script_and_a_short_id(tmp_path):
    writer = RunWriter.create("../exp 1/train gpt.py", [], runs=tmp_path, started=1_700_000_000.0, run_id="abc123")
    assert writer.directory.name == "20231114T221320Z-train-gpt-abc123"


def test_runs_live_under_trainmeter_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "state"))
    writer = RunWriter.create("train.py", [])
    assert writer.directory.parent == tmp_path / "state" / "runs" == runs_directory()


def test_without_trainmeter_home_runs_live_in_the_platforms_state_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("TRAINMETER_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert runs_directory() == tmp_path / "trainmeter" / "runs"


def test_no_secret_of_the_command_line_reaches_disk(tmp_path):
    command = ["python", "train.py", "--hf-token", "hunter2hunter2", "--data", "s3://me:pa55w0rd@host/x"]
    writer = RunWriter.create("train.py", command, runs=tmp_path)
    writer.append("exit", code=0, signal=None, seconds=1.0)
    on_disk = b"".join(file.read_bytes() for file in writer.directory.iterdir())
    assert b"hunter2" not in on_disk
    assert b"pa55w0rd" not in on_disk
    assert b"--hf-token" in on_disk


def test_each_record_is_one_line_with_its_type_and_time(tmp_path):
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    writer.append_many(
        [{"type": "node", "readings": {"a\nb": 1}}, {"type": "dropped", "t": 5.0, "rank": 0, "records": 2}]
    )
    lines = [json.loads(line) for line in (writer.directory / "log.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["node", "dropped"]
    assert lines[0]["t"] > 1e9
    assert lines[1]["t"] == 5.0


def test_numbers_that_are_not_finite_are_written_as_null(tmp_path):
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    writer.append("node", readings={"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}})
    line = (writer.directory / "log.jsonl").read_text()
    assert json.loads(line)["readings"] == {"a": None, "b": [None, 1.5], "c": {"d": None}}


def test_two_writers_never_mix_their_lines(tmp_path):
    """O_APPEND: what a second process adds goes to the end."""
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    log = writer.directory / "log.jsonl"
    for at in range(20):
        with log.open("ab") as other:
            other.write(b'{"type":"node","t":1,"readings":{"other":%d}}\n' % at)
        writer.append("node", readings={"ours": at})
    assert read_run(writer.directory).notes.junk_lines == 0
    assert read_run(writer.directory).notes.lines == 40


def test_a_full_disk_stops_the_log_and_keeps_the_reason(tmp_path, monkeypatch):
    writer = RunWriter.create("train.py", [], runs=tmp_path)
    writer.append("node", readings={"cpu": 1})

    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    writer.append("node", readings={"cpu": 2})
    monkeypatch.undo()
    assert "No space left" in known(writer.problem)
    writer.append("node", readings={"cpu": 3})
    assert read_run(writer.directory).node["cpu"].count == 1


def test_a_home_that_cannot_be_written_gives_a_stopped_writer(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    writer = RunWriter.create("train.py", [], runs=blocked / "runs")
    assert writer.problem
    writer.append("node", readings={})
    writer.write_passport({}, "")
    writer.close()


def test_text_that_is_no_utf8_does_not_stop_a_run(tmp_path):
    """Linux arguments are bytes; Python hands them over as lone surrogates."""
    word = os.fsdecode(b"caf\xe9.py")
    writer = RunWriter.create(word, [word], runs=tmp_path)
    writer.write_passport({"script": word}, word)
    assert writer.problem is None
    assert read_run(writer.directory).identity.script == word
