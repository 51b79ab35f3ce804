"""A data wait is a number only where a data loader was seen; elsewhere it is not known, which is not 0."""

from __future__ import annotations

from time import monotonic
from types import ModuleType
from typing import Any

import pytest

from trainmeter_core.inside.agent import Agent
from trainmeter_core.inside.publishing import Publishing
from trainmeter_core.inside.taps import data
from trainmeter_core.meter import Budget
from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.live import LiveRun


class _BaseDataLoaderIter:
    def __next__(self):
        return 1


@pytest.fixture
def loaders():
    module: Any = ModuleType("loaders")
    module._BaseDataLoaderIter = _BaseDataLoaderIter
    return module


def observed(tmp_path, loaders, use_loader):
    """The log's records, the live row and the agent's own row of three steps."""
    agent = Agent(str(tmp_path))
    undo = data.install(loaders, agent)
    publishing = agent.publish()
    assert isinstance(publishing, Publishing)
    for _ in range(3):
        if use_loader:
            next(_BaseDataLoaderIter())
        agent.step_ends(monotonic(), 0, None)
    agent.finish()
    undo()
    records: list[dict] = []
    live = LiveRun(convention=None, peak_tflops=None, budget=Budget("steps", 10))
    drain = Drain(str(tmp_path), records.append)
    drain.on_steps = lambda reader, fields, end: live.steps(0, 1, fields)
    drain.poll()
    steps = [record for record in records if record["type"] == "steps" and not record["startup"]]
    return steps, live.row(), publishing.row(final=True)


def test_without_a_data_loader_it_is_null_in_the_log_and_no_series(tmp_path, loaders):
    steps, *rows = observed(tmp_path, loaders, use_loader=False)
    assert steps
    assert [step["time"]["data_wait"] for step in steps] == [None] * len(steps)
    for row in rows:
        shares = {name: value for name, value in row.items() if name.startswith("trainmeter/time/")}
        assert "trainmeter/time/data_wait" not in shares
        assert sum(shares.values()) == pytest.approx(100)


def test_with_one_it_is_a_number(tmp_path, loaders):
    steps, *rows = observed(tmp_path, loaders, use_loader=True)
    assert all(step["time"]["data_wait"] >= 0 for step in steps)
    for row in rows:
        assert row["trainmeter/time/data_wait"] > 0
        assert sum(value for name, value in row.items() if "/time/" in name) == pytest.approx(100)
