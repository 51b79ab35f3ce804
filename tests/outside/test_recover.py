"""A run whose tm was killed keeps its passport: from its log, and from what its program left in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.recover import recover, recover_in_background, unfinished
from trainmeter_core.outside.spool import Spool, spool_left_by
from trainmeter_core.runlog.locate import all_runs
from trainmeter_core.runlog.read import RunReader, read_run
from trainmeter_core.runlog.write import RunWriter, has_writer

# Each touched file lets the program make three more steps; it writes how many it has made.
PROGRAM = """
import pathlib, sys, time, torch
torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for part in ("one", "two", "end"):
    while not (folder / part).exists():
        time.sleep(0.01)
    for _ in range(0 if part == "end" else 3):
        layer(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    (folder / (part + "-done")).touch()
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.02)


def a_step_is_logged():
    return any(b'"type":"steps"' in log.read_bytes() for run in all_runs() for log in run.glob("log.jsonl"))


def orphan(pid):
    """The program that tm has started."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_every_step_is_there_once_whether_it_was_logged_before_the_kill_or_not(program, tm, tmp_path):
    pytest.importorskip("torch")
    process = subprocess.Popen([*tm, program(PROGRAM), str(tmp_path)], stderr=subprocess.DEVNULL)
    (tmp_path / "one").touch()
    wait_for(a_step_is_logged)
    run = all_runs()[0]
    wait_for(lambda: read_run(run).rank(0).steps == 3)
    trainer = orphan(process.pid)
    process.kill()
    process.wait()
    (tmp_path / "two").touch()
    wait_for((tmp_path / "two-done").exists)
    with pytest.raises(ValueError, match=f"still runs \\(process {trainer}\\)"):
        recover(run)
    (tmp_path / "end").touch()
    wait_for(lambda: not alive(trainer))
    run_id = run.name.rpartition("-")[2]
    assert unfinished() == [run]
    assert spool_left_by(run_id)
    found = recover(run)
    assert found.steps == 3
    assert found.passport["data"]["steps"]["value"] == 6
    assert found.passport["data"]["samples"]["value"] == 12
    assert found.passport["ends"]["how"] is None
    assert json.loads((run / "passport.json").read_text()) == found.passport
    assert (unfinished(), spool_left_by(run_id)) == ([], None)
    assert recover(run).steps == 0
    assert json.loads((run / "passport.json").read_text())["data"]["steps"]["value"] == 6


# tm as it is, but for how often it sums its log up.
OFTEN = """
import sys
from trainmeter_core.cli.main import main
from trainmeter_core.outside import session
session.SNAPSHOT_EVERY_S = 0.2
main()
"""


def test_a_tm_that_is_killed_has_left_the_sums_of_its_log_behind(program, tmp_path):
    """So that the passport of a run of days needs no more than the log's last minute."""
    pytest.importorskip("torch")
    process = subprocess.Popen(
        [sys.executable, "-c", OFTEN, program(PROGRAM), str(tmp_path)], stderr=subprocess.DEVNULL
    )
    (tmp_path / "one").touch()
    wait_for(a_step_is_logged)
    run = all_runs()[0]
    wait_for(lambda: read_run(run).rank(0).steps == 3 and RunReader(run).behind() < 3000)
    trainer = orphan(process.pid)
    process.kill()
    process.wait()
    os.kill(trainer, 9)
    log = run / "log.jsonl"
    unread = RunReader(run).behind()
    data = log.read_bytes()
    kept = unread + 256  # what a snapshot is told by
    log.write_bytes(b"#" * (len(data) - kept) + data[-kept:])
    found = read_run(run)
    assert (found.rank(0).steps, found.notes.junk_lines) == (3, 0)


def test_a_run_that_goes_on_is_left_alone():
    writer = RunWriter.create("train.py", ["python"])
    assert has_writer(writer.directory)
    assert unfinished() == []
    with pytest.raises(ValueError, match="still running under tm"):
        recover(writer.directory)
    writer.close()
    assert not has_writer(writer.directory)
    assert unfinished() == [writer.directory]


def test_half_a_line_at_the_end_of_the_log_costs_only_itself():
    writer = RunWriter.create("train.py", ["python"])
    writer.append("node", readings={"x": 1.0})
    writer.close()
    with (writer.directory / "log.jsonl").open("ab") as log:
        log.write(b'{"type":"steps","ran')
    passport = recover(writer.directory).passport
    assert passport["readings"]["node"]["x"]["mean"]["value"] == 1.0
    assert (writer.directory / "log.jsonl").read_bytes().endswith(b"\n")


def test_side_files_go_on_from_the_noted_byte():
    spool = Spool("test-" + os.urandom(4).hex())
    try:
        side = Path(spool.path, "r0-1.jsonl")
        side.write_text('{"type":"span","kind":"checkpoint"}\n')
        first: list[dict] = []
        second: list[dict] = []
        drain = Drain(spool.path, first.append)
        drain.poll()
        spool.note(drain.positions())
        with side.open("a") as file:
            file.write('{"type":"span","kind":"eval"}\n')
        from trainmeter_core.outside.spool import noted_positions

        later = Drain(spool.path, second.append)
        later.resume(noted_positions(spool.path), {})
        later.poll()
    finally:
        spool.remove()
    assert [event["kind"] for event in (*first, *second)] == ["checkpoint", "eval"]


def test_the_next_tm_recovers_by_itself_once_the_log_rests():
    writer = RunWriter.create("train.py", ["python"])
    writer.close()
    recover_in_background()
    assert not (writer.directory / "passport.json").exists()
    os.utime(writer.directory / "log.jsonl", (1.6e9, 1.6e9))
    recover_in_background()
    wait_for((writer.directory / "passport.md").exists)


def test_a_command_under_tm_recovers_what_an_earlier_tm_left(program, tm):
    """Nobody has to ask for it."""
    writer = RunWriter.create("train.py", ["python"])
    writer.append("node", readings={"x": 1.0})
    writer.close()
    os.utime(writer.directory / "log.jsonl", (1.6e9, 1.6e9))
    assert subprocess.run([*tm, program("pass")], capture_output=True).returncode == 0
    wait_for((writer.directory / "passport.md").exists)
    passport = json.loads((writer.directory / "passport.json").read_text())
    assert passport["readings"]["node"]["x"]["mean"]["value"] == 1.0
