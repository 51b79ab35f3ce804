"""`tm runs`: what is listed, and that nothing is removed that should stay."""

from __future__ import annotations

import json
import os
import time

import pytest
from click.testing import CliRunner

from trainmeter_core.cli.runs import COLUMNS, command
from trainmeter_core.runlog.locate import all_runs
from trainmeter_core.runlog.write import RunWriter


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    return tmp_path


def runs(*args, answer=None):
    return CliRunner().invoke(command, list(args), input=answer)


def make(run_id, days_ago=0.0, ended=True):
    writer = RunWriter.create("train.py", ["python"], started=time.time() - days_ago * 86400, run_id=run_id)
    writer.append("tracker", rank=0, tracker="tensorboard", where={"logdir": "x"})
    if ended:
        writer.append("exit", code=0, signal=None, seconds=1.0)
    return writer


def left():
    return [path.name.rsplit("-", 1)[-1] for path in all_runs()]


def test_piped_a_run_is_one_line_of_tab_separated_columns():
    make("aaa")
    make("bbb", days_ago=1, ended=False)
    lines = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in runs().stdout.splitlines()]
    assert [line["run"] for line in lines] == ["bbb", "aaa"]
    assert [line["end"] for line in lines] == ["running", "finished"]
    assert (lines[0]["tokens"], lines[0]["tracker"]) == ("n/a", "tensorboard")
    assert [json.loads(line) for line in runs("list", "--json").stdout.splitlines()] == lines


def test_a_broken_run_is_listed_with_the_reason():
    (make("aaa").directory / "passport.json").write_text("{")
    assert "is not JSON" in runs().stdout


def test_a_run_without_an_end_that_nobody_writes_to_is_not_running():
    log = make("aaa", ended=False).directory / "log.jsonl"
    os.utime(log, (1.6e9, 1.6e9))
    assert "not recorded" in runs().stdout


def test_rm_removes_what_was_named_after_asking():
    make("aaa"), make("bbb")
    assert runs("rm", "aaa", answer="n\n").exit_code == 1
    assert left() == ["aaa", "bbb"]
    assert runs("rm", "aaa", answer="y\n").exit_code == 0
    assert left() == ["bbb"]


def test_rm_refuses_what_runs_what_is_elsewhere_and_what_is_no_run(home):
    make("aaa", ended=False)
    elsewhere = RunWriter.create("x.py", [], runs=home / "elsewhere").directory
    for ref, why in [("aaa", "still running"), (str(elsewhere), "remove it by hand"), ("zzz", "no run named")]:
        result = runs("rm", "--yes", ref)
        assert (result.exit_code, why in result.stderr) == (2, True), ref
    assert left() == ["aaa"]
    assert elsewhere.is_dir()


def test_prune_keeps_the_newest_the_young_and_the_running():
    make("old", days_ago=40), make("mid", days_ago=10), make("run", days_ago=50, ended=False), make("new")
    assert runs("prune", "--yes", "--older-than", "30").exit_code == 0
    assert left() == ["run", "mid", "new"]
    assert runs("prune", "--yes", "--keep", "1").exit_code == 0
    assert left() == ["run", "new"]


def test_prune_without_a_rule_removes_nothing():
    make("aaa")
    assert runs("prune").exit_code == 2
    assert left() == ["aaa"]
