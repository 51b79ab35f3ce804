"""A pipe that nobody reads, or a device, in the place of a file of ours is refused at once and never waited for."""

from __future__ import annotations

import os
import stat
import time

import pytest

from trainmeter_core.inside.agent import Agent
from trainmeter_core.inside.side_file import SideFile
from trainmeter_core.plain_files import opener
from trainmeter_core.run_record import RunRecord
from trainmeter_core.runlog import snapshot
from trainmeter_core.runlog.apply import Application
from trainmeter_core.runlog.bound import LogBound
from trainmeter_core.runlog.format import LOG_FILE, NEW_LOG_FILE
from trainmeter_core.runlog.write import RunWriter, has_writer
from trainmeter_mlflow import spool

PARCEL = spool.Parcel("sqlite:///mlflow.db", "a", 1, 1, {"trainmeter/mfu_pct": 40.0}, panels=False)

REFUSED = r"not a plain file|No such device"

pytestmark = pytest.mark.timeout(20)


def pipe(path):
    os.mkfifo(path)
    return path


def is_pipe(path):
    return stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_APPEND])
@pytest.mark.parametrize("make", [pipe, lambda _: "/dev/null", lambda path: path.mkdir() or path])
def test_what_is_no_plain_file_is_refused(make, flags, tmp_path):
    with pytest.raises(OSError):
        os.close(opener(make(tmp_path / "x"), flags))


def test_a_file_that_is_made_is_its_users_alone(tmp_path):
    os.close(opener(tmp_path / "x", os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_the_agent_trains_on(tmp_path):
    pipe(tmp_path / f"agent-{os.getpid()}")
    assert Agent(str(tmp_path)).pid == os.getpid()
    side = SideFile(str(pipe(tmp_path / "r0-1.jsonl")))
    side.write("process", {})
    assert side.reason


@pytest.mark.parametrize("name", [spool.FILE, spool.FILE + ".lock", spool.FILE + ".new"])
def test_what_waits_for_mlflow(name, tmp_path):
    pipe(tmp_path / name)
    how = spool.replace if name.endswith(".new") else spool.append
    with pytest.raises(OSError, match=REFUSED):
        how(str(tmp_path), [PARCEL])
    assert is_pipe(tmp_path / name)


def test_a_runs_log(tmp_path):
    pipe(tmp_path / LOG_FILE)
    assert not has_writer(tmp_path)
    with pytest.raises(OSError, match=REFUSED):
        RunWriter.reopen(tmp_path, "a")


def test_what_stands_beside_a_log_until_it_is_whole(tmp_path):
    writer = RunWriter.create("train.py", ["python"], runs=tmp_path)
    writer.append("exit", code=0, signal=None, seconds=1.0)
    for name in (snapshot.SNAPSHOT_FILE, "passport.json"):
        pipe(writer.directory / f".{name}.{os.getpid()}")
    with pytest.raises(OSError, match=REFUSED):
        snapshot.save(writer.directory, Application(RunRecord()), 0)
    writer.write_passport({"a": 1}, "a")
    assert writer.problem


def test_a_log_that_cannot_be_merged_goes_on_as_it_is(tmp_path):
    writer = RunWriter.create("train.py", ["python"], runs=tmp_path)
    pipe(writer.directory / NEW_LOG_FILE)
    merging = LogBound(writer, most_bytes=100)
    for step in range(20):
        writer.append("node", readings={"cpu_pct": step})
    until = time.monotonic() + 10
    while not merging.ready():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert not merging.take()
    merging.close()
    writer.append("exit", code=0, signal=None, seconds=1.0)
    assert (writer.problem, (writer.directory / LOG_FILE).read_bytes().count(b"\n")) == (None, 21)
