"""`tm passport`: which run, which form, where to, and what it says when it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from trainmeter_core.cli import passport as cli
from trainmeter_core.passport.build import build
from trainmeter_core.passport.markdown import render
from trainmeter_core.passport.schema import problems
from trainmeter_core.run_record import RunRecord
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))
    return tmp_path


def run(*args):
    return CliRunner().invoke(cli.command, list(args))


def make(script="train.py", started=1.7e9, tokens=128):
    writer = RunWriter.create(script, ["python", script], started=started)
    batch = {"tokens": tokens, "samples": 1, "micro_batches": 1, "batches": [[1, tokens, 0, 1]]}
    writer.append("steps", rank=0, pid=1, first=1, last=1, n=1, wall_s=1.0, time={}, step_time_s=[1.0, 1.0], **batch)
    return writer


def test_by_default_it_is_the_latest_run():
    make("old.py", started=1.6e9)
    make("new.py", started=1.8e9)
    result = run("--json")
    assert result.exit_code == 0
    passport = json.loads(result.stdout)
    assert passport["identity"]["script"] == "new.py"
    assert problems(passport) == []


def test_piped_it_is_plain_markdown():
    writer = make()
    assert run().stdout == run("--md").stdout == render(build(read_run(writer.directory)))


def test_on_a_terminal_it_is_drawn(monkeypatch):
    make()
    shown: list[str] = []
    monkeypatch.setattr(cli, "_pretty", shown.append)
    monkeypatch.setattr(cli, "_is_terminal", lambda: True)
    assert run().stdout == ""
    assert shown[0].startswith("# Training passport")


def test_a_run_that_goes_on_is_read_from_its_log():
    writer = make(tokens=77)
    assert not (writer.directory / "passport.json").exists()
    passport = json.loads(run(writer.run_id, "--json").stdout)
    assert passport["data"]["tokens"]["value"] == 77
    assert passport["ends"]["how"] is None


def test_a_finished_run_shows_the_passport_it_left():
    writer = make()
    passport = build(read_run(writer.directory))
    passport["identity"]["script"] = "as it was written.py"
    writer.write_passport(passport, "")
    assert json.loads(run(str(writer.directory), "--json").stdout) == passport
    assert json.loads(run(str(writer.directory / "passport.json"), "--json").stdout) == passport


@pytest.mark.parametrize(("name", "is_json"), [("p.json", True), ("p.md", False)])
def test_out_writes_a_file_whose_name_tells_the_form(home, name, is_json):
    make()
    result = run("--out", str(home / name))
    assert (result.exit_code, result.stdout) == (0, "")
    text = (home / name).read_text()
    assert text.startswith("{" if is_json else "# Training passport")


def test_a_reference_that_is_no_run_directory_goes_to_the_trackers(monkeypatch):
    asked = []

    def open_elsewhere(ref, server):
        asked.append(ref)
        record = RunRecord()
        record.identity.script = "from a tracker.py"
        return record

    monkeypatch.setattr(cli, "open_elsewhere", open_elsewhere)
    assert json.loads(run("somewhere:me/run", "--json").stdout)["identity"]["script"] == "from a tracker.py"
    assert asked == ["somewhere:me/run"]


def failing(*args):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_every_error_is_one_clear_line_and_exit_code_2(home, monkeypatch):
    assert "no run yet" in failing()
    assert "no tracker knows it" in failing("nothing-like-this")
    make(), make()
    assert "fits 2 runs" in failing("2023")
    (home / "broken.json").write_text("{")
    assert "is not JSON" in failing(str(home / "broken.json"))
    (home / "other.json").write_text("{}")
    assert "is not a trainmeter passport" in failing(str(home / "other.json"))
    writer = make("gone.py")
    assert "No such file or directory" in failing(writer.run_id, "--out", str(home / "no" / "p.md"))

    def refused(ref, server):
        raise ValueError("the server said 403")

    monkeypatch.setattr(cli, "open_elsewhere", refused)
    assert "tm passport: the server said 403" in failing("x:y")


def test_json_and_markdown_exclude_each_other():
    assert run("--json", "--md").exit_code == 2


def test_several_runs_make_one_table():
    first, second = make("a.py", started=1.6e9), make("b.py")
    table = run(first.run_id, second.run_id).stdout
    assert f"| run | {first.run_id} | {second.run_id} |" in table
    assert len(json.loads(run(first.run_id, second.run_id, "--json").stdout)) == 2


def test_check_passes_an_honest_passport_and_names_what_an_edit_broke(home):
    writer = make()
    passport = build(read_run(writer.directory))
    path = home / "passport.json"
    path.write_text(json.dumps(passport))
    assert (run(str(path), "--check").exit_code, run(str(path), "--check").stdout) == (
        0,
        "every derived number holds\n",
    )
    passport["efficiency"]["tokens_per_s"]["value"] *= 2
    path.write_text(json.dumps(passport))
    result = run(str(path), "--check")
    assert result.exit_code == 1
    assert "efficiency.tokens_per_s: the passport says 256.0, it follows 128.0" in result.stdout


def test_prices_are_shown_and_never_stored(home):
    make()
    assert "## With factors given by the viewer" in run("--usd-per-gpu-hour", "2.5").stdout
    assert run("--usd-per-gpu-hour", "2.5", "--json").exit_code == 2
    assert not any(b"USD" in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_svg_writes_both_pictures(home):
    make()
    assert run("--svg", str(home / "pictures")).exit_code == 0
    assert sorted(path.name for path in (home / "pictures").iterdir()) == ["ladder.svg", "time.svg"]


def test_a_broken_adapter_is_named_and_the_next_one_is_asked(monkeypatch):
    from types import ModuleType

    from trainmeter_core import plugins
    from trainmeter_core.hookspecs import hookimpl

    broken: Any = ModuleType("broken_adapter")
    whole: Any = ModuleType("whole_adapter")

    def no_run(ref):
        raise RuntimeError("no server")

    def open_run(ref, server):
        record = RunRecord()
        record.identity.script = f"{ref} on {server}"
        return record

    broken.open_run, whole.open_run = hookimpl(no_run), hookimpl(open_run)
    found = []
    for module in (broken, whole):
        monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
        found.append(plugins.FoundPlugin(module.__name__, module.__name__, "", ()))
    monkeypatch.setattr(plugins, "find_plugins", lambda: (found, []))
    asked = run("some:run", "--json", "--tracking-uri", "http://here")
    assert json.loads(asked.stdout)["identity"]["script"] == "some:run on http://here"
    monkeypatch.setattr(plugins, "find_plugins", lambda: (found[:1], []))
    failed = run("some:run")
    assert failed.exit_code == 2
    assert "the adapter broken_adapter: RuntimeError: no server" in failed.stderr


def test_html_and_a_card_show_one_run_and_pictures_lie_beside_the_file(home):
    make()
    assert run("--html").stdout.startswith("<!doctype html>")
    assert run("--card").stdout.startswith("---\ntags:\n- trainmeter\n---\n")
    assert run("--out", str(home / "p.html")).exit_code == 0
    assert (home / "p.html").read_text().startswith("<!doctype html>")
    assert run("--card", "--out", str(home / "README.md")).exit_code == 0
    named = {name.partition('"')[0] for name in (home / "README.md").read_text().split('src="')[1:]}
    assert named == {"README-time-light.svg"}
    assert {path.name for path in home.glob("*.svg")} == {"README-time-light.svg", "README-time-dark.svg"}


def test_forms_exclude_each_other_and_several_runs_are_a_table():
    make("a.py", started=1.6e9)
    make("b.py", started=1.8e9)
    assert run("--json", "--card").exit_code == 2
    assert run("--html", "--usd-per-gpu-hour", "2").exit_code == 2
    several = [writer.directory.name for writer in (make("c.py"), make("d.py"))]
    assert "--html shows one run, not 2" in run("--html", *several).stderr
    assert run(*several).stdout.startswith("| run |")
