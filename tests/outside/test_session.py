"""One run under tm when the machine refuses it something: the program runs, and what is missing is told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from trainmeter_core.outside import session, voice
from trainmeter_core.outside.launch import Exit
from trainmeter_core.outside.options import RunOptions


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begin a session; it is closed as a program that ended well."""
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    begun = []

    def make(**options):
        begun.append(session.Session(RunOptions(target="train.py", kind="script", **options), ["python", "train.py"]))
        return begun[-1]

    yield make
    for each in begun:
        each.close(Exit(0))


def failures(writer):
    lines = (writer.directory / "log.jsonl").read_text().splitlines()
    return [record["site"] for record in map(json.loads, lines) if record["type"] == "failure"]


def test_a_metrics_port_that_is_taken_is_told_and_another_is_used(begin, capfd):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = begin(metrics_port=port)
    assert f"tm: port {port} cannot be had for /metrics" in capfd.readouterr().err
    assert run.metrics is not None
    assert str(port) not in run.metrics.own_series_url


def test_without_a_port_at_all_the_run_goes_on_and_says_so(begin, monkeypatch, capfd):
    def refused(*_words):
        raise OSError(24, "too many open files")

    monkeypatch.setattr(session, "MetricsServer", refused)
    run = begin()
    assert run.metrics is None
    run.close(Exit(0))
    assert failures(run.writer) == ["metrics"]
    assert "[Errno 24]" in capfd.readouterr().err


def test_without_a_spool_the_command_gets_its_own_environment(begin, monkeypatch):
    def refused(_run_id):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(session, "Spool", refused)
    run = begin()
    assert run.environment({"A": "1"}) == {"A": "1"}
    run.child_started(1)
    run.tick()
    run.close(Exit(0))
    assert failures(run.writer) == ["spool"]


def test_a_summing_up_that_fails_is_not_tried_again(begin, monkeypatch):
    run = begin()
    tried = []

    def refused():
        tried.append(1)
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(run.runs.all()[0], "_log_reader", refused)
    run._next_snapshot = 0.0
    run.tick()
    run.tick()
    assert len(tried) == 1
    assert [site for site, *_ in run.failures] == ["tm"]
    monkeypatch.undo()


def test_a_run_whose_rows_no_adapter_can_write_says_how_to_get_charts(begin, capfd):
    run = begin(no_plugins=("wandb", "mlflow"))
    run.runs.all()[0].local.missing = "a library is not installed: pip install it"
    run.close(Exit(0))
    assert "tm: no tracker in this run, and no charts: a library is not installed" in capfd.readouterr().err


def test_quiet_says_none_of_it(tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text("print('trained')\n")
    words = [sys.executable, "-m", "trainmeter_core", "--quiet", "--progress", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
    voice.Voice(quiet=True).tell("x")
    assert capsys.readouterr() == ("", "")
