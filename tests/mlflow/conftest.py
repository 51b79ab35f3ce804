"""One real tracking server on sqlite for all tests, and a proxy before it that can be slow, refuse and be cut off."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace

import pytest

mlflow = pytest.importorskip("mlflow")

from tests.e2e.mlflow_server import RealServer  # noqa: E402
from tests.mlflow.mlflow_agent import Agent  # noqa: E402
from tests.mlflow.moody_proxy import MoodyProxy  # noqa: E402
from trainmeter_mlflow import door, plugin, publish, sender  # noqa: E402
from trainmeter_mlflow.tap import MODULES  # noqa: E402

# Telemetry would ask the network.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
# Its job runners are more processes than a test needs.
os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"

PATIENCE_S = 120.0


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """A database with MLflow's tables, which take seconds to make; copied where a test wants its own."""
    folder = tmp_path_factory.mktemp("tables")
    store = importlib.import_module("mlflow.store.tracking.sqlalchemy_store").SqlAlchemyStore(
        f"sqlite:///{folder}/mlflow.db", f"file://{folder}/artifacts"
    )
    store.engine.dispose()
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def server(tmp_path_factory, migrated):
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(migrated.read_bytes())
    started = RealServer(folder)
    try:
        started.start()
        yield started.uri
    finally:
        started.end()


@pytest.fixture
def proxy(server):
    """The server behind something that a test can make slow, failing or deaf."""
    moody = MoodyProxy(server)
    yield moody
    moody.close()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    """MLflow writes artifacts below the working directory where a database is all it has."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def database(tmp_path, migrated):
    """The URI of a fresh database of this test's own."""
    (tmp_path / "mlflow.db").write_bytes(migrated.read_bytes())
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture
def agent():
    return Agent()


@pytest.fixture
def tapped(agent, monkeypatch, tmp_path):
    """Every store tapped; rows as fast as the test makes steps; a run directory. Undone afterwards.

    Our patience is so long that no promise hangs on the machine's speed; a test of the deadline sets its own.
    """
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.setenv("TRAINMETER_RUN", str(directory))
    monkeypatch.setattr(publish, "_PACE", ((float("inf"), 0.0),))
    monkeypatch.setattr(sender, "LINGER_S", 0.05)
    monkeypatch.setattr(sender, "EXIT_S", PATIENCE_S)
    monkeypatch.setattr(door, "TIMEOUT_S", PATIENCE_S)
    undos = [plugin.install_tap(importlib.import_module(name), agent) for name in MODULES]
    yield SimpleNamespace(directory=directory, finish=lambda: plugin.finish(agent), agent=agent)
    plugin.finish(agent)
    for undo in undos:
        undo()
    plugin._publishers.clear()


@pytest.fixture
def client(database):
    return mlflow.MlflowClient(database)
