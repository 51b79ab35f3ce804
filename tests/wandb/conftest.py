"""Programs that log to the real client, each in a process of its own, against the stand-in backend or offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

pytest.importorskip("wandb.sdk.wandb_run")

from fakes.wandb import Backend

# What a program starts with: the counting agent, and the tap as `tm` would install it.
PREAMBLE = """
import atexit, json, os, sys
sys.path[:0] = {paths!r}
from counting_agent import Agent
agent = Agent(every=float(os.environ.get("ROW_EVERY", "0")), script=os.environ.get("SCRIPT", "train.py"))
def told():
    if os.getpid() == owner:
        with open({told!r}, "w") as file:
            json.dump({{"places": agent.places, "observed": agent.observed, "failures": agent.failures,
                       "logging_calls": agent.logging_calls, "steps": agent.steps}}, file)
owner = os.getpid()
atexit.register(told)
import wandb
import wandb.sdk.wandb_run as run_module
from trainmeter_wandb import plugin
if os.environ.get("TAPPED", "1") == "1":
    undo = plugin.install_tap(run_module, agent)
    atexit.register(plugin.finish, agent)
"""


@pytest.fixture
def backend():
    with Backend() as running:
        yield running


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Nothing of the client's lands outside this test's directory."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    return {
        "WANDB_DIR": str(tmp_path),
        "WANDB_CACHE_DIR": str(tmp_path / "cache"),
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
        "WANDB_DATA_DIR": str(tmp_path / "data"),
        "WANDB_CONSOLE": "off",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DISABLE_GIT": "true",
        "WANDB_X_DISABLE_STATS": "true",
        "WANDB_X_DISABLE_META": "true",
        "WANDB_DISABLE_CODE": "true",
        "TRAINMETER_STRICT": "1",
        "TRAINMETER_HOME": str(tmp_path / "trainmeter"),
    }


@pytest.fixture
def program(tmp_path, home):
    """Run a program that uses `wandb` and `agent`; gives its exit code, stderr and what the agent was told."""

    def run(body: str, *, env: dict[str, str], tapped: bool = True, timeout: float = 60, **more: str):
        told = tmp_path / "told.json"
        told.unlink(missing_ok=True)
        text = PREAMBLE.format(paths=[str(HERE), str(HERE.parent)], told=str(told)) + textwrap.dedent(body)
        done = subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, **home, **env, **more, "TAPPED": "1" if tapped else "0"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        agent = json.loads(told.read_text()) if told.exists() else {}
        assert not agent.get("failures"), agent["failures"]
        return SimpleNamespace(code=done.returncode, stderr=done.stderr, stdout=done.stdout, agent=agent)

    return run


def users(rows):
    """The rows as the user wrote them: without ours, without the clock; rows with nothing of the user's are left out."""
    clocks = ("_timestamp", "_runtime")
    kept = [
        {name: value for name, value in row.items() if not name.startswith("trainmeter/") and name not in clocks}
        for row in rows
    ]
    return [row for row in kept if row.keys() - {"_step"}]
