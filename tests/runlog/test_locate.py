"""Finding runs by path, id and unique prefix."""

from __future__ import annotations

import pytest

from trainmeter_core.runlog.locate import all_runs, find_run, latest_run
from trainmeter_core.runlog.write import RunWriter


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    made = [("a.py", 1.7e9, "aaa111"), ("b.py", 1.8e9, "aab222"), ("c.py", 1.6e9, "ccc333")]
    return {run_id: RunWriter.create(script, [], started=at, run_id=run_id).directory for script, at, run_id in made}


def test_the_latest_run_is_the_one_that_started_last(runs):
    assert latest_run() == runs["aab222"]
    assert all_runs() == [runs["ccc333"], runs["aaa111"], runs["aab222"]]


@pytest.mark.parametrize("ref", ["ccc333", "ccc", "20200913", "20200913T122640Z-c-ccc333"])
def test_a_run_is_found_by_id_by_name_and_by_a_unique_beginning(runs, ref):
    assert find_run(ref) == runs["ccc333"]


def test_a_run_is_found_by_its_path_and_by_its_files(runs):
    directory = runs["aaa111"]
    assert find_run(str(directory)) == find_run(str(directory / "log.jsonl")) == directory


def test_a_beginning_that_fits_several_runs_is_refused_in_one_line(runs):
    with pytest.raises(ValueError, match=r"'aa' fits 2 runs, the latest is .*aab222: give more of it"):
        find_run("aa")


@pytest.mark.parametrize("ref", ["zzz", "/nowhere/at/all", "wandb:me/project/run", ""])
def test_what_is_no_run_here_is_left_to_the_trackers(runs, ref):
    with pytest.raises(LookupError):
        find_run(ref)


def test_before_the_first_run_the_latest_run_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="no run yet"):
        latest_run()


def test_files_beside_the_runs_are_no_runs(runs, tmp_path):
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "zz.txt").write_text("")
    assert len(all_runs()) == 3
