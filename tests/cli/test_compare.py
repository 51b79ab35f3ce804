"""`tm compare`: in words, as JSON, and as an exit code for CI."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.passport.passport_runs import rich
from trainmeter_core.cli import compare
from trainmeter_core.passport.build import build
from trainmeter_core.readings import Absent


@pytest.fixture
def drop(monkeypatch):
    def of(value):
        monkeypatch.setattr(compare, "load", lambda ref, server: {"ref": ref})
        monkeypatch.setattr(compare, "changes", lambda a, b: {"runs": [a["ref"], b["ref"]]})
        monkeypatch.setattr(compare, "words", lambda found: "words\n")
        monkeypatch.setattr(compare, "drop_pct", lambda found: value)

    return of


def run(*words):
    return CliRunner().invoke(compare.command, list(words))


@pytest.mark.parametrize(
    ("fell", "limit", "code"),
    [(4.9, "5%", 0), (5.1, "5%", 1), (5.1, "5", 1), (-3.0, "0%", 0), (Absent("no peak"), "5%", 2)],
)
def test_the_exit_code_tells_a_drop_and_what_cannot_be_told(drop, fell, limit, code):
    drop(fell)
    done = run("a", "b", "--fail-if-mfu-drops", limit)
    assert (done.exit_code, done.stdout) == (code, "words\n")
    assert ("MFU" in done.stderr) == (code > 0)


def passport_file(path, seconds, commit):
    """Of a run whose steady part took so long, on code of a commit."""
    record = rich()
    record.model = {"class": "GPT", "module": "model", "config": CONFIG, "modules": []}
    record.identity.git_commit = commit
    for totals in record.ranks.values():
        totals.steady_wall_s = seconds
        totals.time_s["data_wait"] += seconds - 50.0
    path.write_text(json.dumps(build(record)))
    return str(path)


CONFIG = {"n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 128, "vocab_size": 50304, "bias": False}


def test_two_passports_are_compared_and_ci_is_told_by_the_exit_code(tmp_path):
    """With nothing made up between the command and the passports: a tenth more time, all of it waiting for data."""
    a = passport_file(tmp_path / "a.json", 50.0, "aaaaaaa")
    b = passport_file(tmp_path / "b.json", 55.0, "bbbbbbb")
    for limit, code in {"9%": 1, "10%": 0}.items():
        done = run(a, b, "--fail-if-mfu-drops", limit)
        assert done.exit_code == code, done.stdout
    assert run(b, a, "--fail-if-mfu-drops", "0%").exit_code == 0
    words = run(a, b).stdout
    assert "bbbbbbb" in words
    assert "data" in words
    assert json.loads(run(a, b, "--json").stdout)


def test_without_a_limit_the_exit_code_is_0(drop):
    drop(50.0)
    assert run("a", "b").exit_code == 0
    assert json.loads(run("a", "b", "--json").stdout) == {"runs": ["a", "b"]}


@pytest.mark.parametrize("limit", ["five", "-1%", "101"])
def test_a_limit_that_is_no_percentage_is_refused(drop, limit):
    drop(0.0)
    done = run("a", "b", "--fail-if-mfu-drops", limit)
    assert done.exit_code == 2


def test_a_run_that_is_not_there_costs_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    done = run("nothing", "here")
    assert done.exit_code == 2
    assert done.stderr.startswith("tm compare: no run named")
