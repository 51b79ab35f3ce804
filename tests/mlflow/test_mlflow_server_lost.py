"""A real server that is killed, and a database whose disk is full: what was logged meanwhile arrives later, once."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest
import sqlalchemy
from mlflow.entities import Metric

import mlflow
from tests.e2e.mlflow_server import RealServer
from tests.mlflow.mlflow_reading import artifacts, fresh_run, history
from trainmeter_mlflow import plugin, sender, spool
from trainmeter_mlflow.deliver import deliver


@pytest.fixture
def own_server(tmp_path, migrated):
    """Not started yet; a test may place its folder elsewhere."""
    (tmp_path / "own").mkdir()
    own = RealServer(tmp_path / "own")
    (own.folder / "mlflow.db").write_bytes(migrated.read_bytes())
    yield own
    own.end(signal.SIGKILL)


def logger(agent, store, run_id):
    """Log steps as a user does whose own calls succeed, so that what fails is ours."""

    def log(*steps):
        for step in steps:
            agent.step()
            plugin._publishers[id(agent)].logged(store, run_id, [Metric("loss", 1.0, 1_000_000 + step, step)])

    return log


def steps_in(client, run_id):
    return [step for step, _ in history(client, run_id, "trainmeter/mfu_pct")]


def wait_for(what):
    waited = threading.Event()
    for _ in range(2400):
        if what():
            return
        waited.wait(0.05)
    raise AssertionError("it never came")


def test_a_server_killed_in_the_middle_of_a_run_loses_nothing_and_has_nothing_twice(
    own_server, agent, tapped, monkeypatch
):
    """Killed while it takes rows, back during the run, killed again until after its end."""
    monkeypatch.setattr(sender, "_BACKOFF_S", (0.2,))
    own_server.start()
    client = mlflow.MlflowClient(own_server.uri)
    run_id = fresh_run(client)
    log = logger(agent, client._tracking_client.store, run_id)
    log(0)
    wait_for(lambda: steps_in(client, run_id) == [0])
    log(*range(1, 60))
    own_server.end(signal.SIGKILL)
    log(*range(60, 80))
    own_server.start()
    wait_for(lambda: steps_in(client, run_id) == list(range(80)))
    own_server.end(signal.SIGKILL)
    log(*range(80, 100))
    tapped.finish()
    assert {parcel.step for parcel in spool.read(tapped.directory) if parcel.values} >= set(range(80, 100))
    own_server.start()
    (told,) = deliver(str(tapped.directory))
    assert (told.left, told.reason) == (0, "")
    assert steps_in(client, run_id) == list(range(100))
    assert deliver(str(tapped.directory)) == []
    assert not agent.failures


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_server_whose_disk_is_full_gets_the_rows_when_there_is_space(
    small_disk, own_server, migrated, agent, tapped, tmp_path
):
    """Database and artifacts on a real file system without a free byte."""
    own_server.folder = small_disk
    (small_disk / "mlflow.db").write_bytes(migrated.read_bytes())
    own_server.start()
    client = mlflow.MlflowClient(own_server.uri)
    run_id = fresh_run(client)
    log = logger(agent, client._tracking_client.store, run_id)
    log(0)
    wait_for(lambda: artifacts(own_server.uri, run_id))  # all that belongs to the first row is written
    fill(small_disk / "ballast")
    log(*range(1, 20))
    tapped.finish()
    assert [parcel.step for parcel in spool.read(tapped.directory) if parcel.values] == list(range(1, 20))
    assert [each.sent for each in deliver(str(tapped.directory))] == [0]
    (small_disk / "ballast").unlink()
    (told,) = deliver(str(tapped.directory))
    assert (told.left, told.reason) == (0, "")
    assert steps_in(client, run_id) == list(range(20))
    assert not agent.failures


def fill(path):
    """Write until there is no space."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_a_database_that_is_full_gets_the_rows_when_it_may_grow(agent, database, client, tapped, tmp_path):
    """sqlite's own limit, in the store that a script has by default: it answers "database or disk is full"."""
    run_id = fresh_run(client)
    log = logger(agent, client._tracking_client.store, run_id)
    log(0)
    wait_for(lambda: client.list_artifacts(run_id, "trainmeter"))
    limit = Limit(client._tracking_client.store.engine)
    limit.pages = 1  # sqlite takes it for as many as there are
    log(*range(1, 200))
    wait_for(lambda: limit.met)
    tapped.finish()
    waiting = [parcel.step for parcel in spool.read(tapped.directory) if parcel.values]
    assert waiting
    limit.pages = 1 << 30
    (told,) = deliver(str(tapped.directory))
    assert (told.left, told.reason) == (0, "")
    assert steps_in(client, run_id) == list(range(200))
    assert not agent.failures


class Limit:
    """How many pages sqlite may have, set on each connection that is taken; notes that one met it."""

    def __init__(self, engine):
        self.pages = 1 << 30
        self.met = False
        sqlalchemy.event.listen(engine, "checkout", self._taken)
        sqlalchemy.event.listen(engine, "handle_error", self._failed)

    def _taken(self, connection, *_):
        connection.execute(f"PRAGMA max_page_count = {self.pages}")

    def _failed(self, context):
        self.met = self.met or "database or disk is full" in str(context.original_exception)
