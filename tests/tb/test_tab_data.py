"""What the tab is given of a log directory, through TensorBoard's own data provider."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from tensorboard import context
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

from tests.tb.agent_in_test import Agent
from trainmeter_tb.local import LocalEvents
from trainmeter_tb.tab.data import Passports, Source, ladder_of, read_passport, series_of_runs, watched_runs


@pytest.fixture
def source(tmp_path):
    """Two runs of ours, the second one newer, and a run of someone else's."""
    for name, begin in (("old", 100.0), ("new", 200.0)):
        events = LocalEvents(str(tmp_path / name))
        for step in (1, 2, 3):
            row = {"trainmeter/step": float(step), "trainmeter/mfu_pct": 10.0 * step, "trainmeter/node/load_1": 1.0}
            if step > 1:
                row["trainmeter/tokens"] = 100.0 * step
            events.write(row, 5 * step, begin + step)
        agent = Agent()
        agent.step()
        events.close("# text", agent.passport() if name == "new" else None)
    foreign = LocalEvents(str(tmp_path / "foreign"))
    foreign.write({"loss": 1.0}, 1, 300.0)
    foreign.close(None)
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    return Source(data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path)), context.RequestContext(), "")


def test_only_runs_of_ours_are_listed_the_newest_first(source):
    assert watched_runs(source) == [
        {"name": "new", "step": 15, "wall_time": 203.0},
        {"name": "old", "step": 15, "wall_time": 103.0},
    ]


def test_series_of_the_same_rows_share_an_axis(source):
    found = series_of_runs(source, ["new"], node=False)["new"]
    assert found["series"]["mfu_pct"] == {"axis": found["series"]["step"]["axis"], "values": [10.0, 20.0, 30.0]}
    assert found["axes"][found["series"]["step"]["axis"]] == {"step": [5, 10, 15], "time": [201.0, 202.0, 203.0]}
    assert found["axes"][found["series"]["tokens"]["axis"]] == {"step": [10, 15], "time": [202.0, 203.0]}
    assert "node/load_1" not in found["series"]


def test_the_node_is_read_apart(source):
    assert list(series_of_runs(source, ["new", "old"], node=True)["old"]["series"]) == ["node/load_1"]


def test_a_run_that_is_not_there_has_no_series(source):
    assert series_of_runs(source, ["gone"], node=False) == {"gone": {"axes": [], "series": {}}}


def test_the_ladder_is_taken_by_medians_and_tells_its_gaps():
    rungs = {"ladder/1_gpu_util": [90.0, 10.0, 80.0], "mfu_pct": [40.0, 39.0, 41.0]}
    told = ladder_of({name: {"axis": 0, "values": values} for name, values in rungs.items()})
    assert [(rung["rung"], rung["value"]) for rung in told["rungs"]] == [("1_gpu_util", 80.0), ("6_mfu", 40.0)]
    assert [(gap["upper"], gap["points"]) for gap in told["gaps"]] == [("0_wall", 20.0), ("1_gpu_util", 40.0)]
    assert ladder_of({}) == {"rungs": [], "gaps": []}


def test_a_passport_comes_as_object_and_as_markdown_and_is_checked_once(source, monkeypatch):
    passports = Passports()
    found = passports.of_runs(source, ["new", "old"])
    assert list(found) == ["new"]
    assert found["new"]["json"]["identity"]["script"] == "train.py"
    assert found["new"]["markdown"].startswith("# Training passport: train.py")
    monkeypatch.setattr(sys.modules["trainmeter_tb.tab.data"], "read_passport", None)
    assert passports.of_runs(source, ["new"]) == found


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"version": "trainmeter-passport/9"}', json.dumps({"a": "x" * 9}).encode()]
)
def test_what_is_no_passport_is_said_to_be_none(text):
    assert list(read_passport(np.array(text, dtype=object))) == ["problem"]


@pytest.mark.parametrize("tensor", [np.array([1.0, 2.0]), np.array(7), np.array(b"x" * (5 << 20), dtype=object)])
def test_a_tensor_of_another_kind_does_no_harm(tensor):
    assert list(read_passport(tensor)) == ["problem"]
