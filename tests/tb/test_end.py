"""The last row and the passport are in the user's file, whoever ends the run."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import textwrap
import time

import pytest

from tests.tb import reading
from tests.tb.agent_in_test import LENGTH
from trainmeter_tb import plugin


def test_close_writes_the_last_row_and_the_passport_first(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in (1, 2, 3):
        agent.step()
        writer.add_scalar("loss", 1.0, step)
    agent.step()
    writer.close()
    step, row = reading.rows(tmp_path)[-1]
    assert (step, row["trainmeter/step"]) == (4, 4)
    text = reading.strings(tmp_path, "trainmeter/passport")[0][1]
    assert "| script | train.py |" in text
    assert "<b>" not in text
    written = [json.loads(text) for _step, text in reading.strings(tmp_path, "trainmeter/passport_json")]
    assert written[0]["data"]["tokens"]["value"] == LENGTH
    assert written[-1] == agent.passport()
    assert [step for step, _text in reading.strings(tmp_path, "trainmeter/passport")] == [4]


def test_the_closing_row_stays_on_an_axis_that_is_not_the_optimizers(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    for samples in (512, 1024):
        agent.step()
        writer.add_scalar("loss", 1.0, samples)
    agent.step()
    writer.close()
    assert [step for step, _row in reading.rows(tmp_path)] == [512, 1024, 1024]


def test_a_user_without_any_scalar_still_gets_the_end(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    writer.add_text("note", "hello", 0)
    agent.step()
    writer.close()
    assert [step for step, _row in reading.rows(tmp_path)] == [1]
    assert len(reading.strings(tmp_path, "trainmeter/passport")) == 1


def test_closing_twice_writes_one_passport(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    writer.close()
    assert len(reading.strings(tmp_path, "trainmeter/passport")) == 1


def test_the_end_hook_writes_what_no_close_did_and_is_silent_afterwards(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 1.0, 1)
    agent.step()
    plugin.finish(agent)
    agent.step()
    writer.add_scalar("loss", 1.0, 2)
    writer.close()
    assert [row["trainmeter/step"] for _step, row in reading.rows(tmp_path)] == [1, 2]
    assert len(reading.strings(tmp_path, "trainmeter/passport")) == 1


def test_the_program_may_end_without_close(package, tmp_path):
    """In a process of its own: the user's last values are in the file, and so is our end."""
    program = f"""
        import sys, atexit
        sys.path[:0] = {sys.path!r}
        from tests.tb.agent_in_test import Agent
        from trainmeter_tb import plugin
        agent = Agent()
        atexit.register(plugin.finish, agent)
        import {package.module.__name__} as module
        plugin.install_tap(module, agent)
        from {package.SummaryWriter.__module__} import SummaryWriter
        writer = SummaryWriter({str(tmp_path)!r}, flush_secs=1000)
        for step in range(5):
            agent.step()
            writer.add_scalar("loss", 1.0, step)
        assert not agent.failures
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert len(reading.scalars(tmp_path, "loss")) == 5
    assert len(reading.strings(tmp_path, "trainmeter/passport")) == 1


def test_the_directory_is_told_once_and_absolute(tapped, agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = tapped.SummaryWriter("runs/one")
    for step in range(3):
        agent.step()
        writer.add_scalar("loss", 1.0, step)
    writer.close()
    assert agent.places == [("tensorboard", {"logdir": str(tmp_path / "runs/one")})]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_is_left_out(tapped, agent, tmp_path, bad, monkeypatch):
    monkeypatch.setattr(
        agent,
        "row",
        lambda final=False, reader="": {"trainmeter/step": 1.0, "trainmeter/mfu_pct": bad, "trainmeter/tokens": 2.0},
    )
    writer = tapped.SummaryWriter(str(tmp_path))
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    assert not reading.scalars(tmp_path, "trainmeter/mfu_pct")
    assert reading.scalars(tmp_path, "trainmeter/tokens")[0] == (1, 2.0)


def test_no_session_log_is_ever_ours(tapped, agent, tmp_path):
    """A START of ours would make a reader purge the user's points."""
    writer = tapped.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    assert not [event for event in reading.events(tmp_path) if event.WhichOneof("what") == "session_log"]


def test_a_long_run_writes_its_passport_again_now_and_then(tapped, agent, tmp_path, monkeypatch):
    """Should it be killed, what is left is not older than a fifth of the run."""

    publisher = next(iter(plugin._publishers.values()))
    clock = [publisher._started]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in range(200):
        clock[0] += 30.0
        agent.step()
        writer.add_scalar("loss", 1.0, step)
    monkeypatch.undo()
    writer.close()
    steps = [step for step, _text in reading.strings(tmp_path, "trainmeter/passport_json")]
    assert len(steps) < 20
    assert all(later - earlier <= 0.25 * later + 3 for earlier, later in itertools.pairwise(steps))
