"""An agent in this process with a spool of its own, and a reader of what it wrote there."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from trainmeter_core.inside import guard
from trainmeter_core.inside.agent import Agent
from trainmeter_core.outside.ring_reader import RingReader


@pytest.fixture(autouse=True)
def no_rank(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TRAINMETER_OPTIONS", "TRAINMETER_RUN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def rested_sites():
    """Sites are one per process; a test that fails them on purpose leaves them as they were."""
    yield
    for place in guard._sites.values():
        place.on, place.count, place.first = True, 0, ""


@pytest.fixture
def lenient(monkeypatch):
    """As in production: a failure of ours is counted and goes no further."""
    monkeypatch.setattr(guard, "STRICT", False)


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def agent(spool):
    return Agent(str(spool))


@pytest.fixture
def written(spool, request):
    """What lies in the spool once the agent has caught up: ring records, their shapes, totals, and events by kind."""

    def read(name: str = "*") -> SimpleNamespace:
        if "agent" in request.fixturenames:
            request.getfixturevalue("agent").ended.catch_up()
        records, totals = [], None
        for path in sorted(spool.glob(name + ".ring")):
            reader = RingReader(str(path))
            records += list(reader.steps())
            totals = reader.totals()
            reader.close()
        events = [
            json.loads(line) for path in sorted(spool.glob(name + ".jsonl")) for line in path.read_text().splitlines()
        ]
        return SimpleNamespace(
            records=[record for record, _ in records],
            shapes=[shapes for _, shapes in records],
            totals=totals,
            events=events,
            of=lambda kind: [event for event in events if event["type"] == kind],
        )

    return read


TAPS = {
    "optimizer": "torch.optim.optimizer",
    "backward": "torch.autograd",
    "model": "torch.nn.modules.module",
    "compiling": "torch.compiler",
    "dynamo": "torch._dynamo.trace_rules",
    "data": "torch.utils.data.dataloader",
    "scaler": "torch.amp.grad_scaler",
    "checkpoint": "torch.serialization",
    "by_value": "cloudpickle.cloudpickle",
}


@pytest.fixture
def tapped(agent):
    """All taps of torch in, as under tm; taken out again afterwards."""
    import importlib

    for tap, module in TAPS.items():
        importlib.import_module(module)
        install = importlib.import_module("trainmeter_core.inside.taps." + tap).install
        agent.install(tap, install, sys.modules[module])
    yield agent
    agent.uninstall()
