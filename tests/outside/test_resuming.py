"""A run that another command goes on with: one run directory, one log, one passport over all its parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from trainmeter_core.outside.replay import rows
from trainmeter_core.outside.resuming import Job, jobs_of, run_of_job
from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems
from trainmeter_core.plugins import find_plugins
from trainmeter_core.runlog.locate import all_runs
from trainmeter_core.runlog.write import RunWriter

# Trains up to ten steps, saves after four of them, and ends with 3 after as many as it is told.
PROGRAM = """
import os, sys, torch
torch.set_num_threads(1)
file, stop = sys.argv[1], int(sys.argv[2])
layer = torch.nn.Embedding(8, 4)
optimizer = torch.optim.Adam(layer.parameters())
start = 0
if os.path.exists(file):
    state = torch.load(file)
    layer.load_state_dict(state["layer"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
for step in range(start, 10):
    layer(torch.ones(2, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
    if step == 3:
        torch.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, file + ".new")
        os.replace(file + ".new", file)
    if step + 1 == stop:
        if len(sys.argv) > 3:
            open(sys.argv[3], "w").close()
            import time
            time.sleep(60)
        sys.exit(3)
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith(("SLURM_", "WANDB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def train(program, tm, tmp_path):
    """Run the program under tm with options, up to a step; its exit code and what tm said."""
    pytest.importorskip("torch")
    path = program(PROGRAM)

    def run(*options, stop=0, **environ):
        done = subprocess.run(
            [*tm, "--no-web", *options, path, str(tmp_path / "checkpoint.pt"), str(stop)],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    return run


def passport_of(run):
    passport = json.loads((run / "passport.json").read_text())
    assert problems(passport) == []
    assert check(passport) == []
    return passport


def value(passport, section, name):
    return passport[section][name]["value"]


def test_a_second_command_goes_on_with_the_run_and_one_passport_covers_both(train):
    code, said = train("--resume", "latest", "--budget-steps", "10", stop=6)
    assert code == 3
    assert "no earlier run of" in said
    first = passport_of(all_runs()[0])
    assert (value(first, "data", "steps"), value(first, "time", "restarts"), first["ends"]["how"]) == (6, 0, "crashed")
    code, said = train("--resume", "latest", "--budget-steps", "20")
    assert code == 0
    assert "goes on with the run " in said
    (run,) = all_runs()
    passport = passport_of(run)
    assert value(passport, "data", "steps") == 12
    assert value(passport, "data", "tokens") == 12 * 8
    assert value(passport, "time", "restarts") == 1
    assert passport["time"]["lost_steps"] == {"value": 2, "unit": "steps", "source": "counted"}
    assert value(passport, "options", "budget_steps") == 20
    assert passport["ends"]["how"] == "finished"
    assert passport["identity"]["started"] == first["identity"]["started"]
    assert value(passport, "time", "wall_s") > value(first, "time", "wall_s")
    seconds = [json.loads(line)["seconds"] for line in (run / "log.jsonl").read_text().splitlines() if '"exit"' in line]
    assert value(passport, "time", "wall_s") == pytest.approx(sum(seconds))
    last = list(rows(run, every_s=0.0))[-1].series
    assert last["trainmeter/step"] == 12
    assert last["trainmeter/progress_pct"] == 100 * (12 - 2) / 20


def test_a_job_that_was_queued_again_goes_on_by_itself_until_it_has_finished(train):
    train(stop=6, SLURM_JOB_ID="7")
    train(stop=6, SLURM_JOB_ID="8", SLURM_RESTART_COUNT="0")
    assert len(all_runs()) == 2
    assert train(SLURM_JOB_ID="7", SLURM_RESTART_COUNT="1")[0] == 0
    assert len(all_runs()) == 2
    assert value(passport_of(all_runs()[0]), "time", "restarts") == 1
    assert value(passport_of(all_runs()[1]), "time", "restarts") == 0
    train(SLURM_JOB_ID="7", SLURM_RESTART_COUNT="2")
    assert len(all_runs()) == 3


def test_a_run_whose_tm_was_killed_is_gone_on_with_from_what_its_program_left(program, tm, tmp_path, train):
    stopped = tmp_path / "stopped"
    words = [*tm, "--no-web", program(PROGRAM), str(tmp_path / "checkpoint.pt"), "6", str(stopped)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while not stopped.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert train("--resume", all_runs()[0].name)[0] == 0
    (run,) = all_runs()
    passport = passport_of(run)
    assert value(passport, "data", "steps") == 12
    assert value(passport, "time", "lost_steps") == 2
    assert passport["ends"]["how"] == "finished"


def test_a_run_that_is_not_there_is_said_before_anything_starts(train, tmp_path):
    code, said = train("--resume", "nothing")
    assert code == 2
    assert said.startswith("tm: --resume: no run named 'nothing'")
    assert not (tmp_path / "checkpoint.pt").exists()


@pytest.mark.parametrize("about", [b"", b'{"run_id": "', b"[]"])
@pytest.mark.parametrize("log", [b"", b"\0\0\0\0\n"])
def test_a_run_of_which_nothing_can_be_read_is_said_and_left_as_it_is(train, tmp_path, about, log):
    """An empty log beside a damaged run.json, as a full disk leaves them: there is nothing to go on from."""
    writer = RunWriter.create("child.py", ["python", "child.py"])
    writer.close()
    run = writer.directory
    (run / "run.json").write_bytes(about)
    (run / "log.jsonl").write_bytes(log)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    code, said = train("--resume", run.name)
    assert code == 2
    (line,) = said.splitlines()
    assert line.startswith(f"tm: --resume: {run.name} holds nothing to go on with: ")
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert all_runs() == [run]
    assert not (tmp_path / "checkpoint.pt").exists()


def test_a_run_that_goes_on_is_not_taken_over(train):
    writer = RunWriter.create("other.py", ["python", "other.py"], jobs=["slurm:7.0"])
    code, said = train("--resume", writer.directory.name)
    assert code == 2
    assert "still goes on" in said
    job = Job("slurm:7.0", again=True, finished=True, how="")
    assert run_of_job([job], ["python", "other.py"], "other.py") is None
    writer.close()
    assert run_of_job([job], ["python", "other.py"], "other.py") == (writer.directory, "")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, []),
        ({"SLURM_JOB_ID": "7"}, [("slurm:7.0", False)]),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "2", "SLURM_RESTART_COUNT": "1"}, [("slurm:7.2", True)]),
        ({"WANDB_RUN_ID": "abc"}, [("wandb:abc", False)]),
        ({"WANDB_RUN_ID": "abc", "WANDB_PROJECT": "p", "WANDB_RESUME": "must"}, [("wandb:p/abc", True)]),
        ({"WANDB_RUN_ID": "abc", "WANDB_RESUME": "never"}, [("wandb:abc", False)]),
        ({"MLFLOW_RUN_ID": "abc"}, [("mlflow:abc", True)]),
    ],
)
def test_the_environment_names_the_run_and_says_whether_it_is_gone_on_with(environ, expected):
    plugins, broken = find_plugins()
    assert broken == []
    assert [(job.name, job.again) for job in jobs_of(environ, plugins)] == expected


def test_a_trackers_run_is_gone_on_with_whatever_the_command_and_the_end():
    writer = RunWriter.create("a.py", ["python", "a.py"], jobs=["wandb:abc"])
    writer.write_passport({"ends": {"how": "finished"}}, "")
    writer.close()
    of_tracker = Job("wandb:abc", again=True, finished=True, how="w")
    assert run_of_job([of_tracker], ["python", "b.py"], "b.py") == (writer.directory, "w")
    assert run_of_job([of_tracker._replace(finished=False)], ["python", "a.py"], "a.py") is None
    assert run_of_job([of_tracker._replace(again=False)], ["python", "a.py"], "a.py") is None


def test_of_several_runs_of_a_job_the_one_of_the_same_command_goes_on():
    """And the only one of its script whatever its arguments, which a job script may change when it runs again."""
    job = Job("slurm:7.0", again=True, finished=False, how="")
    one = made(["python", "a.py", "1"])
    assert run_of_job([job], ["python", "a.py", "--resume"], "a.py") == (one, "")
    assert run_of_job([job], ["python", "b.py"], "b.py") is None
    two = made(["python", "a.py", "2"])
    assert run_of_job([job], ["python", "a.py", "2"], "a.py") == (two, "")
    assert run_of_job([job], ["python", "a.py", "1"], "a.py") == (one, "")
    assert run_of_job([job], ["python", "a.py", "3"], "a.py") is None


def made(command):
    writer = RunWriter.create("a.py", command, jobs=["slurm:7.0"])
    writer.close()
    return writer.directory
