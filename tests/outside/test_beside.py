"""The process that watches a program which started it: what it takes from there, and what it answers."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainmeter_core.outside import beside
from trainmeter_core.outside.session import Session


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    return tmp_path


def test_options_are_those_of_tm_with_numbers_as_people_write_them():
    text = json.dumps({
        "budget_tokens": "20B", "budget_flops": "1e22", "peak_tflops": 0.5, "no_taps": ["data"], "convention": "hf",
    })  # fmt: skip
    options = beside.options_from(text, "train.py")
    assert (options.budget_tokens, options.budget_flops, options.peak_tflops) == (20_000_000_000, 1e22, 0.5)
    assert (options.no_taps, options.convention, options.target) == (("data",), "hf", "train.py")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"web": True}, "no option 'web'"),
        ({"target": "x"}, "no option 'target'"),
        ({"convention": "metric"}, "no convention 'metric'"),
        ({"budget_steps": "-3"}, "-3"),
        ({"peak_tflops": 0}, "0"),
    ],
)
def test_what_is_none_is_told_in_one_line(given, said):
    with pytest.raises(ValueError, match=re.escape(said)) as told:
        beside.options_from(json.dumps(given), "train.py")
    assert "\n" not in str(told.value)


def test_a_program_that_is_gone_is_a_problem_and_leaves_no_run(home, capsys):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    beside.main([str(gone.pid), "{}", ""])
    assert "problem" in json.loads(capsys.readouterr().out)
    assert list(home.glob("runs/*")) == []


def test_a_failure_of_ours_meanwhile_is_in_the_log_and_the_passport_is_written_all_the_same(home, capsys, monkeypatch):
    def broken(_self):
        raise RuntimeError("ours")

    monkeypatch.setattr(Session, "tick", broken)
    monkeypatch.setattr(beside, "TICK_S", 0.01)
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    monkeypatch.setattr(sys, "stdin", _NeverEnds(program))
    beside.main([str(program.pid), "{}", ""])
    told = json.loads(capsys.readouterr().out.splitlines()[0])
    directory = Path(told["directory"])
    log = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    assert [record["first"] for record in log if record["type"] == "failure"][:1] == ["RuntimeError: ours"]
    assert [(record["code"], record["signal"]) for record in log if record["type"] == "exit"] == [(None, None)]
    assert (directory / "passport.json").exists()
    assert "time.sleep" not in directory.name, "a run is not named after its program's text"


class _NeverEnds(io.TextIOBase):
    """The standard input of a watcher whose program lives: it ends with that."""

    def __init__(self, program):
        self._program = program

    def read(self, _size=-1):
        self._program.wait()
        return ""
