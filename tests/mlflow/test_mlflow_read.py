"""A run read back from MLflow alone: with its passport, cut off after one, and one that never saw trainmeter."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sqlite3
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import pytest
from mlflow.entities import Metric

import mlflow
from tests.known import known
from tests.mlflow.mlflow_reading import artifacts, fresh_run, history
from trainmeter_core.passport.build import build
from trainmeter_mlflow import plugin, read, stores


@pytest.fixture
def finished(agent, database, client, tapped):
    run_id = fresh_run(client)
    for step in range(5):
        agent.step()
        client.log_metric(run_id, "loss", 2.0 - step / 10, step=step)
    client.set_terminated(run_id, "FINISHED")
    tapped.finish()
    return run_id


def test_a_run_with_a_passport_is_that_passport(finished, database, agent):
    passport = build(known(plugin.open_run("mlflow:" + finished, database)))
    assert passport["data"] == agent.passport()["data"]
    assert passport["losses"] == agent.passport()["losses"]


def test_a_run_that_went_on_after_its_passport_is_counted_by_its_series(finished, database, client):
    """A killed run: the passport of its first row, and sixty steps more."""
    client.log_batch(finished, [Metric("trainmeter/step", 65.0, 9, 65), Metric("trainmeter/tokens", 6500.0, 9, 65)])
    passport = build(known(plugin.open_run("mlflow:" + finished, database)))
    assert passport["data"]["steps"]["value"] == 65
    assert passport["data"]["tokens"]["value"] == 6500
    assert passport["data"]["samples"] is None


def test_a_run_that_never_saw_trainmeter_tells_what_it_knows_and_guesses_nothing(client, database):
    run_id = fresh_run(client, "foreign")
    client.log_batch(run_id, [Metric("train_loss", 3.0 - step / 100, step, step) for step in range(100)])
    client.log_batch(run_id, [Metric("system/gpu_0_utilization_percentage", 80.0, 1, 1)])
    client.set_terminated(run_id, "FAILED")
    passport = build(known(plugin.open_run("mlflow:" + run_id, database)))
    assert passport["losses"]["train_loss"]["count"]["value"] == 100
    assert passport["losses"]["train_loss"]["best"]["value"]["value"] == pytest.approx(2.01)
    assert passport["ends"]["how"] == "crashed"
    assert passport["data"]["tokens"] is None
    assert passport["efficiency"]["mfu_pct"] is None
    assert any(gap["field"] == "model.description" for gap in passport["gaps"])


def test_a_long_history_is_streamed_from_a_real_store(client, database, monkeypatch):
    """Ten times the points, put into MLflow's own tables by SQL, take the memory of a page and no more."""
    monkeypatch.setattr(stores, "PAGE", 500)
    short, long = (run_with_history(client, database, points) for points in (1_000, 10_000))
    losses_of(short, database)  # what is imported and kept at first is none of the memory in question
    peaks = []
    for run_id, points in ((short, 1_000), (long, 10_000)):
        gc.collect()
        tracemalloc.start()
        loss = losses_of(run_id, database)["loss"]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (loss.count, loss.first, loss.last) == (points, (1.0, 0), (1 / points, points - 1))
    assert peaks[1] < 1.5 * peaks[0]


def run_with_history(client, database, points):
    run_id = fresh_run(client, "long")
    rows = [(1 / (step + 1), step, step, run_id) for step in range(points)]
    columns = "(key, value, timestamp, step, run_uuid, is_nan) VALUES ('loss', ?, ?, ?, ?, 0)"
    with contextlib.closing(sqlite3.connect(database[len("sqlite:///") :])) as opened, opened:
        opened.executemany("INSERT INTO metrics " + columns, rows)
        opened.execute("INSERT INTO latest_metrics " + columns, rows[-1])
    return run_id


def losses_of(run_id, database):
    return known(plugin.open_run("mlflow:" + run_id, database)).losses


def test_a_real_server_gives_every_page(server, monkeypatch):
    monkeypatch.setattr(stores, "PAGE", 100)
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "pages")
    client.log_batch(run_id, [Metric("loss", float(step), step, step) for step in range(950)])
    from trainmeter_mlflow.stores import open_store

    assert sorted(each.step for each in stores.history(open_store(server), run_id, "loss")) == list(range(950))


def test_at_most_six_histories_are_read(client, database, monkeypatch):
    run_id = fresh_run(client, "many")
    client.log_batch(run_id, [Metric(f"loss_{number}", 1.0, 1, 1) for number in range(20)])
    record = known(plugin.open_run("mlflow:" + run_id, database))
    assert len(record.losses) == read.MOST_HISTORIES


@pytest.mark.parametrize("ref", ["mlflow:0123456789abcdef0123456789abcdef", "mlflow:"])
def test_a_run_that_is_not_there_is_one_clear_line(ref, database):
    with pytest.raises(ValueError, match="MLflow has no run") as told:
        plugin.open_run(ref, database)
    assert "\n" not in str(told.value)


def test_a_server_that_fails_in_the_middle_is_one_clear_line(proxy, server):
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "cut off")
    client.log_metric(run_id, "loss", 1.0)
    proxy.status, proxy.only_with = 400, b"get-history"
    with pytest.raises(ValueError, match="MLflow did not answer while run") as told:
        plugin.open_run("mlflow:" + run_id, proxy.uri)
    assert "\n" not in str(told.value)


def test_tm_passport_reads_a_runs_address(server, agent, tapped, tmp_path):
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "by address")
    agent.step()
    client.log_metric(run_id, "loss", 1.0, step=0)
    tapped.finish()
    experiment = client.get_run(run_id).info.experiment_id
    command = [sys.executable, "-m", "trainmeter_core", "passport", "--json"]
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path)}
    for where in (
        [f"{server}/#/experiments/{experiment}/runs/{run_id}"],
        [f"mlflow:{run_id}", "--tracking-uri", server],
    ):
        shown = subprocess.run([*command, *where], capture_output=True, text=True, env=env, timeout=600)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["data"]["steps"]["value"] == 1


class TestExport:
    """`tm export mlflow`."""

    @staticmethod
    def rows(count):
        return [
            SimpleNamespace(step=step, time=1000.0 + step, series={"trainmeter/step": step, "trainmeter/mfu_pct": 40.0})
            for step in range(1, count + 1)
        ]

    def test_every_row_is_written_once_however_often(self, agent, database, client):
        agent.steps = 5
        passport = {**agent.passport()}
        passport["identity"] = {**passport["identity"], "run_id": "abc123"}
        for rows in (self.rows(25), self.rows(25), self.rows(30)):
            told = known(
                plugin.export("mlflow", passport, {"server": database, "project": "mine", "run": "a name"}, rows)
            )
        (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
        assert told.startswith("mlflow ui ")
        assert run.info.run_id in told
        assert run.info.run_name == "a name"
        assert [step for step, _ in history(client, run.info.run_id, "trainmeter/step")] == list(range(1, 31))
        assert "trainmeter/panel.html" in artifacts(database, run.info.run_id)
        assert run.data.tags["trainmeter.convention"] == "torchtitan"

    def test_another_trackers_name_is_not_ours(self, agent):
        assert plugin.export("wandb", agent.passport(), {}, []) is None

    def test_a_server_that_does_not_answer_is_one_clear_line(self, agent):
        agent.steps = 1
        passport = {**agent.passport()}
        passport["identity"] = {**passport["identity"], "run_id": "abc123"}
        with pytest.raises(ValueError, match="MLflow did not take the run") as told:
            plugin.export("mlflow", passport, {"server": "http://127.0.0.1:9"}, self.rows(1))
        assert "\n" not in str(told.value)
