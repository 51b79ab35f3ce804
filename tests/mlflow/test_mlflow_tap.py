"""What the user logs is in their run as it would be without us; ours stands beside it, in the right run."""

from __future__ import annotations

import importlib
import math
import os
import threading
from typing import TYPE_CHECKING

import pytest
from mlflow.entities import Metric, Param, RunTag

import mlflow
from tests.mlflow.mlflow_agent import Agent
from tests.mlflow.mlflow_reading import fresh_run, history, of_user, points
from trainmeter_mlflow import plugin, publish
from trainmeter_mlflow.tap import MODULES, tapped_of

if TYPE_CHECKING:
    from collections.abc import Callable


def fluent_program(uri, agent=None):
    """Everything that scripts do with the fluent interface."""
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("fluent")
    with mlflow.start_run(description="my own words") as run:
        mlflow.log_param("lr", 0.1)
        mlflow.log_params({"depth": 2, "width": "x" * 600})
        mlflow.set_tag("team", "one")
        mlflow.set_tags({"stage": "try", "n": 3})
        for step in range(12):
            if agent is not None:
                agent.step()
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
            mlflow.log_metrics({"lr": 0.1, "grad": float("nan") if step == 3 else 2.0}, step=step)
        mlflow.log_metric("no_step", 7.0)
        mlflow.log_dict({"a": 1}, "config/a.json")
    return run.info.run_id


def client_program(uri, agent=None):
    """What Lightning and others do: the client, no active run, batches."""
    client = mlflow.MlflowClient(uri)
    run_id = fresh_run(client, "client")
    for step in range(12):
        if agent is not None:
            agent.step()
        batch = [Metric("loss", 1 / (step + 1), 1000 + step, step), Metric("lr", 0.1, 1000 + step, step)]
        client.log_batch(run_id, batch, [Param(f"p{step}", "1")], [RunTag("last", str(step))])
    client.set_terminated(run_id, "FINISHED")
    return run_id


def async_program(uri, agent=None):
    """What transformers does: everything asynchronous."""
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("async")
    with mlflow.start_run() as run:
        mlflow.log_params({"a": 1}, synchronous=False)
        for step in range(12):
            if agent is not None:
                agent.step()
            mlflow.log_metrics({"loss": 1 / (step + 1)}, step=step, synchronous=False)
            mlflow.log_metric("one", step, step=step, synchronous=False)
            mlflow.set_tag(f"at{step}", "1", synchronous=False)
        mlflow.flush_async_logging()
    return run.info.run_id


PROGRAMS = [fluent_program, client_program, async_program]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_the_user_logged_is_the_same_with_and_without_the_tap(program, agent, database, client, tapped):
    """Golden: every metric's history, every param and tag, the run's status."""
    without = of_user(client, _untapped(program, database))
    run_id = program(database, agent)
    tapped.finish()
    assert of_user(client, run_id) == without
    assert len(history(client, run_id, "trainmeter/mfu_pct")) == 12
    assert not agent.failures


def _untapped(program, uri):
    """The same program in a process that never heard of us."""
    run_id = []
    publishers = dict(plugin._publishers)
    for publisher in publishers.values():
        publisher._finished = True
    run_id = program(uri)
    for publisher in publishers.values():
        publisher._finished = False
    return run_id


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_row_stands_at_the_users_step(program, agent, database, client, tapped):
    run_id = program(database, agent)
    tapped.finish()
    assert history(client, run_id, "trainmeter/step") == [(step, step + 1.0) for step in range(12)]


def test_a_row_has_the_time_of_the_metric_beside_it(agent, database, client, tapped):
    run_id = client_program(database, agent)
    tapped.finish()
    assert [time for _step, time, _value in points(client, run_id, "trainmeter/mfu_pct")] == list(range(1000, 1012))


def test_without_steps_of_the_users_ours_stand_at_optimizer_steps(agent, database, client, tapped):
    """`log_metric(key, value)` puts everything at step 0; our series would be one vertical line there."""
    run_id = fresh_run(client)
    for _ in range(10):
        agent.step()
        client.log_metric(run_id, "loss", 1.0)
    tapped.finish()
    steps = [step for step, _ in history(client, run_id, "trainmeter/step")]
    assert steps[-1] == 10
    assert len(set(steps)) >= 8


def test_only_finite_values_are_published(agent, database, client, tapped, monkeypatch):
    row = {"trainmeter/step": 1.0, "trainmeter/a": math.inf, "trainmeter/b": math.nan, "trainmeter/c": 1.0}
    monkeypatch.setattr(agent, "row", lambda final=False, reader="": dict(row))
    run_id = fresh_run(client)
    client.log_metric(run_id, "loss", 1.0, step=1)
    tapped.finish()
    found = client.get_run(run_id).data.metrics
    assert found["trainmeter/c"] == 1.0
    assert not {"trainmeter/a", "trainmeter/b"} & found.keys()


def test_a_series_name_that_mlflow_would_refuse_is_made_to_fit(agent, database, client, tapped):
    run_id = client_program(database, agent)
    tapped.finish()
    assert "trainmeter/node/disk_busy_pct/sda _root_" in client.get_run(run_id).data.metrics


def test_ours_go_to_the_nested_run_that_gets_the_training_curve(agent, database, client, tapped):
    """A parent with a few values of its own, and two children that train one after the other."""
    mlflow.set_tracking_uri(database)
    mlflow.set_experiment("nested")
    children = []
    with mlflow.start_run() as parent:
        mlflow.log_metric("epoch", 0, step=0)
        for child_number in range(2):
            with mlflow.start_run(nested=True) as child:
                children.append(child.info.run_id)
                for step in range(30):
                    agent.step()
                    mlflow.log_metric("loss", 1.0, step=step)
            mlflow.log_metric("epoch", child_number + 1, step=child_number + 1)
    tapped.finish()
    for child_id in children:
        assert len(history(client, child_id, "trainmeter/mfu_pct")) >= 20
        assert any(file.path == "trainmeter/panel.html" for file in client.list_artifacts(child_id, "trainmeter"))
    assert len(history(client, parent.info.run_id, "trainmeter/mfu_pct")) <= 1
    assert client.get_run(children[0]).info.status == "FINISHED"


def test_runs_one_after_another_each_get_their_own_series(agent, database, client, tapped):
    first, second = client_program(database, agent), client_program(database, agent)
    tapped.finish()
    for run_id in (first, second):
        assert len(history(client, run_id, "trainmeter/mfu_pct")) == 12
        assert history(client, run_id, "trainmeter/step") == [(step, step + 1.0) for step in range(12)]
    assert [where["run_id"] for _t, where in agent.places if "experiment_id" in where] == [first, second]


def test_a_resumed_run_goes_on_from_its_sums(agent, database, client, tapped):
    """The process that resumes it counts from nothing; the run does not."""
    run_id = fresh_run(client)
    earlier = [Metric("trainmeter/step", 100.0, 1, 100), Metric("trainmeter/tokens", 5000.0, 1, 100)]
    client.log_batch(run_id, earlier)
    for step in range(101, 104):
        agent.step()
        client.log_metric(run_id, "loss", 1.0, step=step)
    tapped.finish()
    assert history(client, run_id, "trainmeter/step") == [(step, float(step)) for step in (100, 101, 102, 103)]
    assert client.get_run(run_id).data.metrics["trainmeter/tokens"] == 5000 + 3 * 524289
    assert client.get_run(run_id).data.tags["trainmeter.step"] == "103"


def test_no_run_is_ever_made_by_us(agent, database, client, tapped):
    """Golden: as many runs as the user started, none active afterwards."""
    fluent_program(database, agent)
    agent.step()
    tapped.finish()
    assert mlflow.active_run() is None
    experiment = client.get_experiment_by_name("fluent").experiment_id
    assert len(client.search_runs([experiment])) == 1


def test_no_param_is_ever_ours(agent, database, client, tapped):
    run_id = client_program(database, agent)
    tapped.finish()
    assert set(client.get_run(run_id).data.params) == {f"p{step}" for step in range(12)}


def test_mlflows_own_system_metrics_are_no_training_curve(agent, database, client, tapped):
    run_id = fresh_run(client)
    agent.step()
    client.log_batch(run_id, [Metric("system/cpu_utilization_percentage", 5.0, 1, 0)])
    tapped.finish()
    assert not agent.observed
    assert not agent.rows


def test_the_agent_hears_of_every_value_once_with_its_step(agent, database, tapped):
    """Also of asynchronous ones, which pass the store a second time on MLflow's own threads."""
    async_program(database, agent)
    assert len([1 for values, _ in agent.observed if "loss" in values]) == 12
    assert ({"loss": 0.5}, 1) in agent.observed


@pytest.fixture
def slow_pace(monkeypatch):
    """An hour between two rows, and between two looks at what was noted."""
    monkeypatch.setattr(publish, "_PACE", ((float("inf"), 3600.0),))
    monkeypatch.setattr(publish, "_NOTED_S", 3600.0)


def test_calls_between_two_rows_are_followed_up_together_each_at_its_own_step(
    agent, database, client, tapped, slow_pace
):
    """The first one tells of the run at once; what else was logged is told at the run's end, as it was logged."""
    run_id = fresh_run(client)
    batch: list[Metric] = []
    for step in range(5):
        agent.step()
        batch[:] = [Metric("loss", 1 / (step + 1), 1000, step)]
        client.log_batch(run_id, batch)
    batch.clear()
    assert agent.observed == [({"loss": 1.0}, 0)]
    client.set_terminated(run_id, "FINISHED")
    assert agent.observed == [({"loss": 1 / (step + 1)}, step) for step in range(5)]
    assert agent.observed_after == [1, 2, 3, 4, 5]
    tapped.finish()
    assert [step for step, _ in history(client, run_id, "trainmeter/step")] == [0, 4]


def test_another_trackers_passport_has_what_is_still_noted(agent, database, client, slow_pace, monkeypatch):
    asked: list[Callable[[], None]] = []
    monkeypatch.setattr(agent, "before_passport", asked.append)
    publisher, store = publish.Publisher(agent), client._tracking_client.store
    agent.step()
    for step in range(3):
        publisher.logged(store, "the run", (Metric("loss", 1.0, 1000, step),))
    assert agent.observed == [({"loss": 1.0}, 0)]
    asked[0]()
    assert agent.observed == [({"loss": 1.0}, step) for step in range(3)]


def test_what_is_noted_is_bounded(agent, database, client, tapped, slow_pace, monkeypatch):
    monkeypatch.setattr(publish, "_MOST_NOTED", 4)
    run_id = fresh_run(client)
    agent.step()
    for step in range(5):
        client.log_metric(run_id, "loss", 1.0, step=step)
    assert len(agent.observed) == 5
    client.log_metric(run_id, "loss", 1.0, step=5)
    assert len(agent.observed) == 5
    client.log_batch(run_id, [Metric(f"loss/{number}", 1.0, 1000, 6) for number in range(4)])
    assert len(agent.observed) == 7


def test_another_run_is_followed_at_once(agent, database, client, tapped, slow_pace):
    runs = [fresh_run(client), fresh_run(client)]
    agent.step()
    for step in range(3):
        for run_id in runs:
            client.log_metric(run_id, "loss", 1.0, step=step)
    assert len(agent.observed) == 6


def test_calls_of_many_threads_are_each_told_once(agent, database, client, tapped):
    run_id = fresh_run(client)

    def log(thread_number):
        for step in range(20):
            client.log_metric(run_id, f"loss/{thread_number}", 1.0, step=step)

    threads = [threading.Thread(target=log, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tapped.finish()
    told = [(name, step) for values, step in agent.observed for name in values]
    assert sorted(told) == [(f"loss/{number}", step) for number in range(4) for step in range(20)]
    assert not agent.failures


def test_the_users_time_in_calls_is_counted_by_call(agent, database, tapped):
    fluent_program(database, agent)
    tapped.finish()
    assert agent.waits["MLflow's synchronous log_metric"] > 0
    assert agent.waits["MLflow's synchronous log_metrics"] > 0
    assert agent.logging_calls >= 29


def test_an_error_of_the_users_call_stays_theirs(agent, database, client, tapped):
    run_id = fresh_run(client)
    client.log_param(run_id, "lr", "1")
    with pytest.raises(mlflow.MlflowException, match="lr"):
        client.log_param(run_id, "lr", "2")
    with pytest.raises(mlflow.MlflowException):
        client.log_metric(run_id, "no % sign", 1.0)
    assert not agent.failures


def test_a_file_store_works_where_it_is_allowed(agent, tapped, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/mlruns"
    run_id = client_program(uri, agent)
    tapped.finish()
    assert len(history(mlflow.MlflowClient(uri), run_id, "trainmeter/mfu_pct")) == 12
    assert not agent.failures


def test_a_server_gets_the_same_as_a_database(agent, server, tapped):
    run_id = client_program(server, agent)
    tapped.finish()
    client = mlflow.MlflowClient(server)
    assert history(client, run_id, "trainmeter/step") == [(step, step + 1.0) for step in range(12)]
    assert client.get_run(run_id).data.tags["trainmeter.convention"] == "torchtitan"
    assert not agent.failures


def test_nothing_is_sent_from_the_users_thread(agent, database, tapped, monkeypatch):
    """Only the sender's thread writes ours; the user's call leaves a row in memory."""
    from trainmeter_mlflow.door import StoreDoor

    threads = set()
    send = StoreDoor.send

    def sending(*args):
        threads.add(threading.current_thread().name)
        return send(*args)

    monkeypatch.setattr(StoreDoor, "send", sending)
    client_program(database, agent)
    tapped.finish()
    assert threads == {"trainmeter-mlflow"}


def test_rows_are_asked_for_at_a_slower_pace_as_a_run_grows_old(agent, database, client, tapped, monkeypatch):
    """A chart shows a few hundred points; each row costs the server some sixty."""
    monkeypatch.setattr(publish, "_PACE", ((float("inf"), 3600.0),))
    run_id = client_program(database, agent)
    tapped.finish()
    assert [step for step, _ in history(client, run_id, "trainmeter/step")] == [0, 11]


def test_a_forked_child_is_silent(agent, database, client, tapped):
    """A data loader's worker inherits everything; whatever it calls, we add nothing and fail nowhere."""
    run_id = fresh_run(client)
    agent.step()
    client.log_metric(run_id, "loss", 1.0, step=1)
    child = os.fork()
    if child == 0:
        publisher = plugin._publishers[id(agent)]
        publisher.finish()
        os._exit(0 if publisher.silent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tapped.finish()
    assert len(history(client, run_id, "trainmeter/mfu_pct")) == 1


@pytest.mark.parametrize("module_name", MODULES)
def test_undo_restores_every_method_by_identity(module_name, monkeypatch):
    module = importlib.import_module(module_name)
    cls = getattr(module, MODULES[module_name])
    before = dict(vars(cls))
    agent = Agent()
    undo = plugin.install_tap(module, agent)
    assert {name for name, value in vars(cls).items() if value is not before[name]} >= set(tapped_of(module_name))
    undo()
    assert dict(vars(cls)) == before
    plugin._publishers.clear()


def test_the_tap_fits_this_mlflow():
    from trainmeter_mlflow.checks import checks

    assert all(check.ok for check in checks())
