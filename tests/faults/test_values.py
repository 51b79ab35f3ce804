"""Whatever a program logs, its tracker gets as it would without us; what we keep of it stays bounded."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.faults import tiny_training
from tests.faults.test_every_function import TAPS
from trainmeter_core import emit
from trainmeter_core.inside import guard, this_process
from trainmeter_core.inside.agent import Agent
from trainmeter_wandb.users import users_data


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __float__(self):
        raise RuntimeError("float")

    def __str__(self):
        raise RuntimeError("str")


NUMBERS = {
    "NaN": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "huge": 10**400, "tiny": 5e-324, "true": True,
    "text": "x", "none": None, "bytes": b"\xff", "list": [1], "dict": {"loss": 1}, "hostile": Hostile(), "complex": 1j,
    "10 MB": "x" * 10_000_000,
}  # fmt: skip
NAMES = [
    "loss/\ud800",
    "loss\0",
    "loss\n",
    "loss" + "x" * 100_000,
    "<script>loss</script>",
    "",
    "loss'\"&",
    "损失 loss",
]

# The client's own errors are the program's, with and without us: each row is logged for itself.
WANDB = """
    import math, numpy, torch
    run = wandb.init(project="p")
    rows = [
        {"loss": math.nan, "a": math.inf, "b": -math.inf, "big": 10 ** 400},
        {"loss": torch.tensor(0.5), "grad": torch.ones(2, requires_grad=True).sum(), "matrix": torch.eye(3)},
        {"loss": numpy.float32(0.1), "int": numpy.int64(7), "array": numpy.arange(5), "half": numpy.float16(2)},
        {"text": "x" * 10_000_000, "loss": 1.0},
        {"surrogate": "\\ud800", "loss": 1.0},
        {"loss\\ud800": 1.0},
        {1: 2.0}, {None: 1.0}, {("a", "b"): 1.0}, {b"loss": 1.0},
        {"nested": {"loss": {"deep": {"er": 1.0}}}, "loss": {}},
        {"loss": object()}, {"loss": b"\\xff"}, {"loss": {1, 2}}, {"loss": None}, {"": 1.0},
        {"<script>alert(1)</script> loss": 1.0},
        {f"loss/{k}": k for k in range(100_000)},
        {"loss": 2.0},
    ]
    for row in rows:
        agent.step()
        try:
            run.log(row)
        except Exception as error:
            print(type(error).__name__)
    run.finish()
"""


def test_a_row_of_anything_reaches_wandb_as_without_us(tmp_path, faults):
    from tests.wandb.conftest import run_program

    faults.injected(19)
    found = []
    for tapped in (False, True):
        folder = tmp_path / str(tapped)
        folder.mkdir()
        done = run_program(folder, WANDB, env={"TRAINMETER_STRICT": "0"}, tapped=tapped, timeout=280)
        [data] = users_data(str(folder))
        found.append((done.code, done.stdout, done.stderr, data.content))
    assert found[0][:3] == found[1][:3]
    assert found[0][3].keys() == found[1][3].keys()
    for name, value in found[0][3].items():
        assert found[1][3][name] == value, name[:100]
    faults.survived(19)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """The agent of this process, as in production, with a step behind it."""
    monkeypatch.setattr(guard, "STRICT", False)
    made = Agent(str(tmp_path))
    monkeypatch.setattr(this_process, "_agent", made)
    monkeypatch.setattr(this_process, "_registered", True)
    importlib.import_module("trainmeter_core.inside.bootstrap")
    for tap, module in TAPS.items():
        made.install(tap, importlib.import_module(f"trainmeter_core.inside.taps.{tap}").install, sys.modules[module])
    tiny_training.train()
    yield made
    made.uninstall()
    for place in guard._sites.values():
        place.on, place.count, place.first = True, 0, ""


@pytest.mark.parametrize(
    "step",
    [None, -1, 10**30, "x", float("nan"), 2.5, Hostile()],
    ids=["none", "negative", "huge", "text", "nan", "half", "hostile"],
)
def test_emit_takes_anything_and_raises_nothing(agent, faults, step):
    faults.injected(len(NUMBERS) + len(NAMES))
    for name, value in NUMBERS.items():
        emit(step=step, **{f"loss {name}": value})
    for name in NAMES:
        emit(step=step, **{name: 1.0})
    agent.finish()
    assert not guard.failures()
    assert agent.publish().passport() is not None
    faults.survived(len(NUMBERS) + len(NAMES))


def test_a_hundred_thousand_names_are_kept_within_bounds(agent, faults):
    faults.injected()
    for start in range(0, 100_000, 10_000):
        agent.publish().observe({f"loss/{k}": float(k) for k in range(start, start + 10_000)}, None)
        emit(**{f"loss {k}": 1.0 for k in range(start, start + 10_000)})
    agent.finish()
    assert len(agent.publish().losses) < 10_000
    assert sum(path.stat().st_size for path in agent_files(agent)) < 16 << 20
    assert not guard.failures()
    faults.survived()


def agent_files(agent):
    from pathlib import Path

    return [path for path in Path(agent.spool).iterdir() if path.suffix == ".jsonl"]
