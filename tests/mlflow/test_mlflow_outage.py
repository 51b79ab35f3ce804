"""A tracking server that is slow, refuses, is gone, or has lost the run costs the training nothing, and no data."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from types import SimpleNamespace

import pytest

import mlflow
from tests.mlflow.mlflow_reading import artifacts, fresh_run, history, points
from tests.mlflow.moody_proxy import MoodyProxy
from trainmeter_mlflow import door, plugin, sender, spool
from trainmeter_mlflow.deliver import deliver
from trainmeter_mlflow.run_page import NOTE_TAG


@pytest.fixture
def logged(agent, server, proxy, tapped, monkeypatch):
    """Log a step through the proxy as a user does whose own calls succeed: into a store that we tap, past the moods.

    The proxy's moods are for our thread alone, so that what is measured is ours.
    """
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "outage")
    proxied = mlflow.MlflowClient(proxy.uri)._tracking_client.store
    from mlflow.entities import Metric

    def log(step):
        agent.step()
        plugin._publishers[id(agent)].logged(proxied, run_id, [Metric("loss", 1.0, 1_000_000 + step, step)])

    return SimpleNamespace(step=log, run_id=run_id, client=client)


def test_a_slow_server_never_holds_up_the_users_call(logged, proxy, tapped):
    """All calls have returned before the server gave its first answer."""
    proxy.open.clear()
    for step in range(40):
        logged.step(step)
    assert proxy.answered == 0
    proxy.open.set()
    tapped.finish()
    assert len(history(logged.client, logged.run_id, "trainmeter/mfu_pct")) == 40


@pytest.mark.parametrize("exit_s", [0.0, 120.0])
@pytest.mark.parametrize("status", [500, 503, 429])
def test_what_a_server_refuses_for_a_while_arrives_once_it_recovers(
    logged, proxy, tapped, status, exit_s, agent, monkeypatch
):
    """Before the exit deadline or, by what is spooled, after it: each row once, however far the last attempt came."""
    monkeypatch.setattr(sender, "EXIT_S", exit_s)
    proxy.status = status
    for step in range(5):
        logged.step(step)
    wait_for(lambda: proxy.requests)
    proxy.status = 0
    tapped.finish()
    waits = {parcel.step for parcel in rows_in(tapped.directory)}
    arrived = {step for step, _ in history(logged.client, logged.run_id, "trainmeter/mfu_pct")}
    assert waits | arrived == set(range(5))
    deliver(str(tapped.directory))
    assert [step for step, _ in history(logged.client, logged.run_id, "trainmeter/mfu_pct")] == list(range(5))
    assert deliver(str(tapped.directory)) == []
    assert not agent.failures


def test_an_attempt_that_was_under_way_at_the_end_is_not_the_last(logged, proxy, tapped, agent):
    """It was refused by a server that has recovered since: the rows arrive, and nothing needs to be spooled."""
    proxy.status = 500
    proxy.open.clear()
    for step in range(5):
        logged.step(step)
    wait_for(lambda: proxy.requests)
    proxy.status = 0
    ours = plugin._publishers[id(agent)]._sender
    finishing = threading.Thread(target=tapped.finish)
    finishing.start()
    wait_for(lambda: ours._closing)
    proxy.open.set()
    finishing.join()
    assert [step for step, _ in history(logged.client, logged.run_id, "trainmeter/mfu_pct")] == list(range(5))
    assert spool.read(tapped.directory) == []


def test_a_resumed_run_whose_server_was_away_goes_on_from_its_sums(logged, proxy, tapped, monkeypatch):
    """What earlier processes came to could not be asked while the run lasted; the delivery asks."""
    door.ServerDoor(logged.client._tracking_client.store).send(
        logged.run_id, [("trainmeter/step", 100.0, 999, 100)], {}
    )
    monkeypatch.setattr(sender, "MOST_WAITING", 2)
    proxy.status = 503
    for step in range(101, 104):
        logged.step(step)
    wait_for(lambda: rows_in(tapped.directory))  # the oldest went to the disk, the others arrive before them
    proxy.status = 0
    tapped.finish()
    deliver(str(tapped.directory))
    steps = history(logged.client, logged.run_id, "trainmeter/step")
    assert steps == [(step, float(step)) for step in (100, 101, 102, 103)]


def test_a_row_that_arrived_though_its_answer_was_lost_is_there_once(logged, proxy, tapped):
    """Repeated with the same time, so that the store knows it again."""
    proxy.delay_s = 0.0
    logged.step(1)
    tapped.finish()
    rows = points(logged.client, logged.run_id, "trainmeter/mfu_pct")
    again = mlflow.entities.Metric("trainmeter/mfu_pct", 41.5, rows[0][1], rows[0][0])
    logged.client.log_batch(logged.run_id, [again])
    assert points(logged.client, logged.run_id, "trainmeter/mfu_pct") == rows


def test_a_server_that_is_gone_at_the_end_leaves_a_file_and_it_is_delivered_once(logged, proxy, tapped, server, agent):
    """Nothing is lost after recovery, nothing is there twice, and the panels follow."""
    logged.step(0)
    wait_for(lambda: history(logged.client, logged.run_id, "trainmeter/mfu_pct"))
    port = proxy.port
    proxy.close()
    for step in range(1, 6):
        logged.step(step)
    tapped.finish()
    assert [parcel.step for parcel in rows_in(tapped.directory)] == list(range(1, 6))
    assert "secret" not in (tapped.directory / spool.FILE).read_text()

    (tapped.directory / "passport.json").write_text(json.dumps(agent.passport()))
    left = deliver(str(tapped.directory))
    assert [(each.sent, each.left) for each in left] == [(0, 6)]
    recovered = MoodyProxy(server, port)
    try:
        assert [(each.sent, each.left) for each in deliver(str(tapped.directory))] == [(6, 0)]
        assert deliver(str(tapped.directory)) == []
    finally:
        recovered.close()
    assert [step for step, _ in history(logged.client, logged.run_id, "trainmeter/mfu_pct")] == list(range(6))
    assert not (tapped.directory / spool.FILE).exists()
    assert "trainmeter/panel.html" in artifacts(server, logged.run_id)
    assert "41.5 %" not in logged.client.get_run(logged.run_id).data.tags[NOTE_TAG]  # no peak, so no MFU is claimed


def rows_in(directory):
    """What waits, but for the empty row that stands for the panels."""
    return [parcel for parcel in spool.read(directory) if parcel.values]


def wait_for(what, seconds=120.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_deaf_server_costs_the_exit_deadline_and_no_more(logged, proxy, tapped, monkeypatch):
    """The program ends while the server still has to answer, and what was not sent is in the run directory."""
    monkeypatch.setattr(sender, "EXIT_S", 0.2)
    proxy.open.clear()
    logged.step(0)
    tapped.finish()
    assert proxy.answered == 0
    assert len(rows_in(tapped.directory)) == 1


def test_a_deleted_run_is_left_alone(logged, proxy, tapped, agent):
    """Nothing is spooled for it, and nothing more is asked of the server."""
    logged.step(0)
    wait_for(lambda: history(logged.client, logged.run_id, "trainmeter/mfu_pct"))
    logged.client.delete_run(logged.run_id)
    for step in range(1, 4):
        logged.step(step)
    tapped.finish()
    assert spool.read(tapped.directory) == []
    assert not agent.failures


def test_rows_of_a_run_that_was_deleted_meanwhile_are_struck_off(tmp_path, server):
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "outage")
    client.delete_run(run_id)
    spool.append(tmp_path, [spool.Parcel(server, run_id, 1, 1, {"trainmeter/a": 1.0}, False)])
    (told,) = deliver(str(tmp_path))
    assert (told.sent, told.left, told.reason) == (0, 0, "the run was deleted")
    assert deliver(str(tmp_path)) == []


def test_a_full_disk_loses_the_spool_and_nothing_else(logged, proxy, tapped, monkeypatch, agent):
    """The rows are gone then; the user's program goes on, and the failure is counted."""
    proxy.close()

    def full(_directory, _parcels):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    logged.step(0)
    monkeypatch.setattr(spool, "append", full)
    with pytest.raises(OSError, match="No space left"):  # raised by this test's guard, swallowed by the real one
        tapped.finish()
    assert [site for site, _ in agent.failures] == ["mlflow.spool"]


def test_many_waiting_rows_go_to_the_disk_and_none_is_lost(logged, proxy, tapped, monkeypatch, server):
    monkeypatch.setattr(sender, "MOST_WAITING", 20)
    port = proxy.port
    proxy.close()
    for step in range(60):
        logged.step(step)
    wait_for(lambda: rows_in(tapped.directory))
    tapped.finish()
    assert sorted(parcel.step for parcel in rows_in(tapped.directory)) == list(range(60))
    recovered = MoodyProxy(server, port)
    deliver(str(tapped.directory))
    recovered.close()
    assert len(history(logged.client, logged.run_id, "trainmeter/mfu_pct")) == 60


def test_two_deliveries_at_once_send_each_row_once(tmp_path, server):
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "outage")
    parcels = [spool.Parcel(server, run_id, step, step, {"trainmeter/a": 1.0}, False) for step in range(50)]
    spool.append(tmp_path, parcels)
    told = []
    threads = [threading.Thread(target=lambda: told.extend(deliver(str(tmp_path)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.sent for each in told) == 50
    assert len(history(client, run_id, "trainmeter/a")) == 50


def test_half_a_line_in_the_file_is_left_out(tmp_path):
    spool.append(tmp_path, [spool.Parcel("http://x", "r", 1, 1, {"trainmeter/a": 1.0}, False)])
    with open(tmp_path / spool.FILE, "a") as file:
        file.write('{"tracking_uri": "http://x", "run_id": "r", "st')
    assert [parcel.step for parcel in spool.read(tmp_path)] == [1]


def test_an_address_with_a_password_is_never_written_down(tmp_path, agent, tapped, server):
    from trainmeter_mlflow.place import public_uri

    assert public_uri("http://me:secret@host:5000/base") == "http://host:5000/base"
    assert public_uri("postgresql://u:p@db/mlflow") == "postgresql://db/mlflow"
    assert public_uri("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"


def test_an_error_says_whether_to_try_again():
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, PERMISSION_DENIED, RESOURCE_DOES_NOT_EXIST

    assert door.meaning(MlflowException("no such run", RESOURCE_DOES_NOT_EXIST)) == door.GONE
    assert door.meaning(MlflowException("must be in the 'active' state", INVALID_PARAMETER_VALUE)) == door.GONE
    assert door.meaning(MlflowException("bad name", INVALID_PARAMETER_VALUE)) == door.REFUSED
    assert door.meaning(MlflowException("log in first", PERMISSION_DENIED)) == door.LATER
    assert door.meaning(OSError("No space left on device")) == door.LATER
