"""`tm export wandb` and `tm wandb view`: a finished run in W&B under its own id, each row once, however often."""

from __future__ import annotations

import json
import sys

import pytest

from tests.known import known
from tests.wandb.conftest import run_tm
from trainmeter_core.outside.replay import rows
from trainmeter_core.runlog.write import RunWriter
from trainmeter_wandb.read import local_file, read_file

GPT2 = {"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
STEPS = 12


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A run directory with one step a second, node readings among them; no tracker has seen it."""
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "trainmeter"))
    writer = RunWriter.create("train.py", ["python", "train.py"], started=1000.0, peak_tflops=0.5, peak_source="user")
    model = {"class": "GPT2LMHeadModel", "config": {**GPT2, "architectures": ["GPT2LMHeadModel"]}, "device": "cpu"}
    writer.append("process", t=1000.0, rank=0, local_rank=0, world_size=1, pid=1)
    writer.append("model", t=1000.0, rank=0, description=model)
    for step in range(STEPS):
        kinds = {"startup": 1.0} if step == 0 else {"step": 0.75, "data_wait": 0.25}
        writer.append(
            "steps", t=1001.0 + step, rank=0, pid=1, first=step + 1, last=step + 1, n=1, skipped=0, tokens=512,
            samples=8, micro_batches=1, wall_s=1.0, time=kinds, batches=[[8, 64, 0, 1]], startup=step == 0,
        )  # fmt: skip
        writer.append("node", t=1001.0 + step, readings={"node/load_1": float(step)})
    writer.append("exit", t=1013.0, code=0, signal=None, seconds=13.0)
    writer.close()
    return writer


def test_the_rows_of_a_log_are_the_same_at_each_reading(finished):
    told = list(rows(finished.directory))
    assert told == list(rows(finished.directory))
    assert [row.step for row in told] == list(range(2, STEPS + 1))
    assert told[-1].series["trainmeter/tokens"] == STEPS * 512
    assert told[-1].series["trainmeter/tokens_per_s"] == 512
    assert told[-1].series["trainmeter/mfu_pct"] > 0
    assert told[-1].series["trainmeter/time/data_wait"] == 25
    assert told[-1].series["trainmeter/node/load_1"] == STEPS - 2


def test_an_export_brings_every_row_once_and_a_second_one_nothing(finished, backend, tmp_path):
    for _ in range(2):
        done = run_tm(tmp_path, ["export", "wandb", "--project", "p"], env=backend.environment())
        assert done.returncode == 0, done.stderr
        run = backend.only_run()
        assert done.stdout.strip() == f"{backend.url}/stub/p/runs/{finished.run_id}"
        assert [row["trainmeter/step"] for row in run.history] == [*range(2, STEPS + 1), STEPS]
        assert [row["_step"] for row in run.history] == list(range(STEPS))
        assert run.history[0]["_timestamp"] == 1002
        assert sum("trainmeter/passport" in row for row in run.history) == 1
        assert run.summary["trainmeter/tokens"] == STEPS * 512
        assert run.summary["trainmeter/mfu_pct"] > 0
    assert len([e for e in backend.artifacts.values() if e["given"]["artifactTypeName"] == "trainmeter-passport"]) == 1
    assert not backend.unknown_ops


def test_an_interrupted_export_goes_on_where_it_stopped(finished, backend, tmp_path):
    run_tm(tmp_path, ["export", "wandb", "--project", "p"], env=backend.environment())
    run = backend.only_run()
    whole = [{k: v for k, v in row.items() if k != "_runtime"} for row in run.history]
    for name in ("wandb-history.jsonl", "wandb-events.jsonl"):
        run.lines[name] = {place: line for place, line in run.lines.get(name, {}).items() if place < 5}
    run.appended["wandb-summary.json"] = [json.dumps(run.history[-1])]
    run.complete = False
    done = run_tm(tmp_path, ["export", "wandb", "--project", "p"], env=backend.environment())
    assert done.returncode == 0, done.stderr
    again = [{k: v for k, v in row.items() if k != "_runtime"} for row in run.history]
    assert [row["trainmeter/step"] for row in again] == [row["trainmeter/step"] for row in whole]
    assert again[:-1] == whole[:-1]  # the closing row's time is its own


def test_offline_it_is_a_directory_for_wandb_sync_written_once(finished, tmp_path):
    first = run_tm(tmp_path, ["export", "wandb", "--offline", "--project", "p"], env={})
    again = run_tm(tmp_path, ["export", "wandb", "--offline", "--project", "p"], env={})
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert first.stdout == again.stdout
    run = read_file(known(local_file(first.stdout.strip())))
    assert run.rows == STEPS
    assert run.series["trainmeter/step"].last.value == STEPS
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 1


def test_a_run_that_is_not_there_is_one_clear_line(tmp_path):
    done = run_tm(tmp_path, ["export", "wandb", "nowhere"], env={})
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_view_is_saved_with_our_sections_and_no_other_is_touched(backend, tmp_path):
    pytest.importorskip("wandb_workspaces")
    theirs = {"id": "VmlldzoxMDA", "name": "nw-abcdefghijk-v", "displayName": "trainmeter", "spec": "{}"}
    theirs.update(entityName="stub", projectName="p")
    backend.views.append(dict(theirs))
    done = run_tm(tmp_path, ["wandb", "view", "stub/p"], env=backend.environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{backend.url}/stub/p?nw=trainmeter\n"
    kept, view = backend.views
    assert kept == theirs
    assert (view["displayName"], view["entityName"], view["projectName"]) == ("trainmeter", "stub", "p")
    spec = json.loads(view["spec"])
    sections = {each["name"]: json.dumps(each) for each in spec["section"]["panelBankConfig"]["sections"]}
    assert "trainmeter/ladder/4_ofu" in sections["Utilization ladder"]
    assert "trainmeter/time/data_wait" in sections["Where the time goes"]
    assert "trainmeter/passport" in sections["Passport"]
    assert not backend.unknown_ops


def test_a_view_that_is_saved_again_is_the_same_view(backend, tmp_path):
    """What was changed in it comes back, but for its title; another project has its own."""
    pytest.importorskip("wandb_workspaces")
    first = run_tm(tmp_path, ["wandb", "view", "stub/p"], env=backend.environment())
    (view,) = backend.views
    whole, identity = json.loads(view["spec"]), view["id"]
    emptied = json.loads(view["spec"])
    emptied["section"]["panelBankConfig"]["sections"] = []
    view.update(spec=json.dumps(emptied), displayName="my title")
    again = run_tm(tmp_path, ["wandb", "view", "stub/p"], env=backend.environment())
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert first.stdout == again.stdout
    (view,) = backend.views
    assert (view["id"], view["displayName"]) == (identity, "my title")
    names = [each["name"] for each in json.loads(view["spec"])["section"]["panelBankConfig"]["sections"]]
    assert names == [each["name"] for each in whole["section"]["panelBankConfig"]["sections"]]
    other = run_tm(tmp_path, ["wandb", "view", "stub/q"], env=backend.environment())
    assert other.returncode == 0, other.stderr
    assert [each["projectName"] for each in backend.views] == ["p", "q"]
    assert not backend.unknown_ops


def test_other_words_after_the_adapters_name_are_the_users_own_program(tmp_path):
    """`tm wandb agent …` runs the client's command of that name, under tm."""
    program = tmp_path / "wandb"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint('ran', *sys.argv[1:])\n")
    program.chmod(0o755)
    done = run_tm(tmp_path, ["--quiet", "wandb", "agent", "x"], env={"PATH": str(tmp_path)})
    assert done.stdout == "ran agent x\n"
    done = run_tm(tmp_path, ["wandb", "agent", "x"], env={"PATH": str(tmp_path)})
    assert done.stdout == "ran agent x\n"
