"""`tm publish` and `tm recover`: what they say and end with; what they do is tested in the rooms that do it."""

from __future__ import annotations

import os
import subprocess

import pytest
from click.testing import CliRunner

from trainmeter_core.cli import publish, recover
from trainmeter_core.hookspecs import Delivered
from trainmeter_core.outside import pending
from trainmeter_core.runlog.locate import all_runs
from trainmeter_core.runlog.write import RunWriter


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))


def call(command, *words):
    return CliRunner().invoke(command.command, list(words))


def make(run_id="aaa", ended=True):
    writer = RunWriter.create("train.py", ["python"], run_id=run_id)
    if ended:
        writer.append("exit", code=0, signal=None, seconds=1.0)
    writer.close()
    return writer.directory


@pytest.mark.parametrize("command", [publish, recover])
def test_a_run_that_is_not_there_costs_one_line_and_code_2(command):
    done = call(command, "zzz")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no run named 'zzz'" in done.stderr


class TestPublish:
    """`tm publish`."""

    @pytest.fixture
    def waiting(self):
        directory = make()
        (directory / "pending-mlflow.jsonl").write_text("{}\n")
        return directory

    def test_nothing_waits(self):
        make()
        done = call(publish)
        assert (done.exit_code, done.stdout) == (0, "nothing waits to be sent\n")

    @pytest.mark.parametrize(
        ("told", "code", "said"),
        [
            (Delivered(5, 0, "a run"), 0, "5 rows sent to a run\n"),
            (Delivered(2, 3, "a run", "no answer"), 1, "2 rows sent to a run; 3 still wait: no answer\n"),
        ],
    )
    def test_it_says_what_was_sent_and_what_is_left(self, waiting, monkeypatch, told, code, said):
        monkeypatch.setattr(publish, "deliver", lambda run: [told] if run == waiting else [])
        done = call(publish)
        assert (done.exit_code, done.stdout) == (code, f"{waiting.name}: {said}")
        assert call(publish, "--quiet").stdout == ""

    def test_without_an_adapter_for_it_that_is_said_and_what_waits_stays(self):
        directory = make()
        (directory / "pending-a_tracker.jsonl").write_text("{}\n")
        done = call(publish)
        assert (done.exit_code, done.stdout.count("\n")) == (1, 1)
        assert "rows wait for a_tracker, and its adapter is not installed where tm is" in done.stdout
        assert pending.pending_files(directory)

    def test_what_waits_for_an_adapter_that_is_here_is_that_adapters_to_speak_of(self, waiting):
        done = call(publish)
        assert (done.exit_code, done.stdout) == (0, "")

    def test_what_cannot_be_read_costs_one_line_and_the_other_runs_are_sent(self, monkeypatch):
        """A pipe in its place is not waited for."""
        unreadable, other = make(), make("bbb")
        os.mkfifo(unreadable / "pending-mlflow.jsonl")
        (other / "pending-a_tracker.jsonl").write_text("{}\n")
        done = call(publish)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
        assert f"tm publish: {unreadable.name}: " in done.stderr
        assert "not a plain file" in done.stderr
        assert "rows wait for a_tracker" in done.stdout

    def test_the_next_run_starts_it_where_something_waits_and_only_there(self, monkeypatch):
        started = []
        monkeypatch.setattr(subprocess, "Popen", lambda words, **_: started.append(words[-2:]))
        make()
        pending.deliver_in_background()
        assert started == []
        (all_runs()[0] / "pending-a_tracker.jsonl").write_text("{}\n")
        pending.deliver_in_background()
        assert started == [["publish", "--quiet"]]


class TestRecover:
    """`tm recover`."""

    def test_nothing_is_to_be_recovered(self):
        done = call(recover)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "nothing to recover\n")

    def test_a_run_without_a_passport_gets_one(self):
        directory = make(ended=False)
        done = call(recover, "aaa")
        assert done.exit_code == 0, done.stderr
        assert done.stdout == f"{directory.name}: 0 steps, 0 of them from the spool; {directory / 'passport.md'}\n"
        assert (directory / "passport.json").exists()

    def test_one_that_goes_on_is_left_alone(self):
        writer = RunWriter.create("train.py", ["python"], run_id="bbb")
        done = call(recover, "bbb")
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert call(recover, "bbb", "--quiet").stderr == ""
        writer.close()
