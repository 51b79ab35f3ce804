"""What MLflow shows of a run: tags, description, artifacts and charts, and that the user's own text is never lost."""

from __future__ import annotations

import json
import re

import pytest

import mlflow
from tests.known import known
from tests.mlflow.mlflow_agent import Agent
from tests.mlflow.mlflow_reading import artifact, artifacts, fresh_run
from trainmeter_mlflow import panels, plugin
from trainmeter_mlflow.place import pages, public_uri, run_of
from trainmeter_mlflow.run_page import NOTE_TAG, VIEW_TAG
from trainmeter_mlflow.system import OPTION

ROW = {"trainmeter/step": 3.0, "trainmeter/tokens": 6.0, "trainmeter/mfu_pct": 41.5}


@pytest.fixture
def passport(monkeypatch):
    agent = Agent()
    agent.steps = 3
    return agent.passport()


@pytest.fixture
def run(agent, database, client, tapped):
    """A finished run with five steps, and what is known of it."""

    def make(before=None):
        run_id = fresh_run(client)
        if before:
            before(run_id)
        for step in range(5):
            agent.step()
            client.log_metric(run_id, "loss", 1.0, step=step)
        tapped.finish()
        return run_id

    return make


def test_a_run_has_tags_to_filter_by(run, client):
    tags = client.get_run(run()).data.tags
    assert tags["trainmeter.step"] == "5"
    assert tags["trainmeter.convention"] == "torchtitan"
    assert "trainmeter.peak_tflops" not in tags  # not known, so not there


def test_the_artifacts_are_a_page_a_model_card_and_the_data(run, client, database, tmp_path, agent):
    run_id = run()
    assert artifacts(database, run_id) == [
        f"trainmeter/{name}" for name in ("panel.html", "passport.json", "passport.md")
    ]
    page = artifact(client, run_id, "trainmeter/panel.html", tmp_path)
    assert "Node, newest reading" in page
    assert "Utilization ladder, newest reading" in page
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page
    assert not re.search(r"<(img|link|iframe|object|script src)|url\(|@import", page)  # self-contained
    assert json.loads(artifact(client, run_id, "trainmeter/passport.json", tmp_path))["data"]["steps"]["value"] == 5


def test_the_description_gets_three_lines_under_a_marker_after_the_users_own_text(run, client):
    run_id = run(lambda run_id: client.set_tag(run_id, NOTE_TAG, "My **own** words\n\nand more"))
    note = client.get_run(run_id).data.tags[NOTE_TAG]
    assert note.startswith("My **own** words\n\nand more\n\n<!-- trainmeter -->\n")
    assert len(note.split("<!-- trainmeter -->\n")[1].split("\n<!--")[0].split("\n")) == 3


def test_our_lines_replace_ours_and_nothing_else(passport):
    ours = panels.headline(ROW, passport)
    first = known(panels.note("before\n", ours))
    edited = first.replace("before", "before, edited") + "\n\nand the user went on below"
    second = known(panels.note(edited, ours.replace("steps", "STEPS")))
    assert "before, edited" in second
    assert "and the user went on below" in second
    assert second.count("<!-- trainmeter -->") == 1
    assert "STEPS" in second
    assert panels.note(known(panels.note("mine", ours)), ours) is None


@pytest.mark.parametrize("theirs", ["", "  \n", "a line\n\n\n", "<!-- trainmeter --> without its end", "x" * 4900])
def test_the_users_text_is_whole_whatever_it_is(theirs, passport):
    """A description that would grow too long for MLflow, which cuts silently, is left alone."""
    note = panels.note(theirs, panels.headline(ROW, passport))
    assert note is None or theirs.strip() in note
    assert note is None or len(note) <= 5000


def test_an_experiment_gets_the_shared_charts_once(run, client, monkeypatch):
    run_id = run()
    experiment = client.get_run(run_id).info.experiment_id
    view = json.loads(client.get_experiment(experiment).tags[VIEW_TAG])
    ladder = view["compareRunCharts"][0]
    assert [key.rpartition("/")[2] for key in ladder["selectedMetricKeys"]] == [
        "1_gpu_util", "2_sm_active", "3_tensor_active", "4_ofu", "5_hfu", "6_mfu",
    ]  # fmt: skip
    assert len(view["compareRunCharts"][1]["selectedMetricKeys"]) == 7
    assert len(panels.shared_view()) < 5000  # what an older server takes as a tag


def test_tm_is_told_the_pages_of_a_run(run, agent):
    run_id = run()
    _, where = agent.places[-1]
    assert where["run_id"] == run_id
    on_server = {**where, "tracking_uri": "http://host:5000"}
    assert plugin.where("mlflow", on_server) == (
        f"http://host:5000/#/experiments/{where['experiment_id']}/runs/{run_id}"
        f" · charts of all its runs: http://host:5000/#/experiments/{where['experiment_id']}/runs"
        "?viewStateShareKey=trainmeter&compareRunsMode=CHART"
    )
    assert known(pages(where)).startswith("mlflow ui --backend-store-uri sqlite:")
    assert pages({"tracking_uri": "http://x", "run_id": "r"}) is None
    assert plugin.where("another", where) is None


def test_the_system_metrics_tab_is_left_alone_unless_it_is_asked_for(run, client):
    assert not [name for name in client.get_run(run()).data.metrics if name.startswith("system/")]


def test_asked_for_the_mirror_keeps_to_the_step_of_mlflows_monitor(run, client, monkeypatch):
    """A resumed monitor goes on from the largest step under system/, so that training steps must never stand there."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monkeypatch.setenv(OPTION, "1")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "3600")
    run_id = run()
    mirrored = client.get_metric_history(run_id, "system/trainmeter/ladder/1_gpu_util")
    assert [each.step for each in mirrored] == [0]
    mlflow.set_tracking_uri(client.tracking_uri)
    monitor = SystemMetricsMonitor(run_id, resume_logging=True)
    assert monitor._logging_step == 1


def test_references_to_runs_are_recognized():
    assert run_of("mlflow:abc") == ("abc", None)
    assert run_of("http://h:5000/#/experiments/1/runs/abc123/model-metrics") == ("abc123", "http://h:5000")
    assert run_of("https://h/base/#/runs/abc123") == ("abc123", "https://h/base")
    assert run_of("runs/abc123") is None
    assert run_of("wandb:abc") is None
    assert public_uri("https://u:p@h/base") == "https://h/base"
