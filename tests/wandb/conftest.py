"""Programs that log to the real client, each in a process of its own, against the stand-in backend or offline."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("wandb.sdk.wandb_run")

from tests.fakes.wandb import Backend  # noqa: E402

# What a program starts with: the counting agent, and the tap as `tm` would install it.
PREAMBLE = """
import atexit, json, os, sys
sys.path[:0] = {paths!r}
from tests.wandb.counting_agent import Agent
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


def client_environment(directory: Path) -> dict[str, str]:
    """Nothing of the client's lands outside a directory, and nothing of the tester's own settings is used."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "TRAINMETER_"))}
    return {
        **bare,
        "WANDB_DIR": str(directory),
        "WANDB_CACHE_DIR": str(directory / "cache"),
        "WANDB_CONFIG_DIR": str(directory / "config"),
        "WANDB_DATA_DIR": str(directory / "data"),
        "WANDB_CONSOLE": "off",
        "WANDB_SILENT": "true",
        "WANDB_MODE": "offline",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DISABLE_GIT": "true",
        "WANDB_X_DISABLE_STATS": "true",
        "WANDB_X_DISABLE_META": "true",
        "WANDB_DISABLE_CODE": "true",
        "TRAINMETER_STRICT": "1",
        "TRAINMETER_HOME": str(directory / "trainmeter"),
        "OMP_NUM_THREADS": "1",
    }


def run_program(
    directory: Path, body: str, *, env: dict[str, str], tapped: bool = True, timeout: float = 120, **more: str
):
    """Run a program that uses `wandb` and `agent`; gives its exit code, stderr and what the agent was told."""
    told = directory / "told.json"
    told.unlink(missing_ok=True)
    text = PREAMBLE.format(paths=[str(ROOT)], told=str(told)) + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**client_environment(directory), **env, **more, "TAPPED": "1" if tapped else "0"},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    agent = json.loads(told.read_text()) if told.exists() else {}
    assert not agent.get("failures"), agent["failures"]
    return SimpleNamespace(code=done.returncode, stderr=done.stderr, stdout=done.stdout, agent=agent)


def run_tm(directory: Path, words: list[str], *, env: dict[str, str], timeout: float = 180, **more: str):
    """Run `tm` with these words in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "trainmeter_core", *words],
        env={**client_environment(directory), **env, **more},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture
def program(tmp_path):
    """`run_program` in this test's directory."""
    return functools.partial(run_program, tmp_path)


@pytest.fixture
def tm(tmp_path):
    """`run_tm` in this test's directory."""
    return functools.partial(run_tm, tmp_path)


def users(rows):
    """The rows as the user wrote them: without ours, without the clock; rows with nothing of the user's are left out."""
    clocks = ("_timestamp", "_runtime")
    kept = [
        {name: value for name, value in row.items() if not name.startswith("trainmeter/") and name not in clocks}
        for row in rows
    ]
    return [row for row in kept if row.keys() - {"_step"}]
