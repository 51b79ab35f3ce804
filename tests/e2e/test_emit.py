"""`emit` in a real run: losses in the passport, all scalars in the run's own TensorBoard files, and nothing anywhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAMS, PYTHON
from tests.tb import reading
from trainmeter_core.passport.schema import problems

LOOP = f"""
import sys
sys.path.insert(0, {str(PROGRAMS)!r})
import torch
from tiny import GPT, config, tokens
from trainmeter_core import emit

torch.manual_seed(0)
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(1, 13):
    batch = tokens(4, 17, seed=step)
    loss = model(batch[:, :-1], batch[:, 1:])[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(emit(train_loss=loss, lr=0.5 * step, step=10 * step))
emit(train_loss=float("nan"))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("emit") / "loop.py"
    path.write_text(LOOP)
    return str(path)


def test_emitted_scalars_reach_the_runs_files_and_its_passport(launch, script):
    run = launch.tm(script)
    assert (run.code, run.stdout) == (0, b"None\n" * 12)
    tb = run.directory / "tb"
    assert reading.scalars(tb, "lr") == [(10 * step, 0.5 * step) for step in range(1, 13)]
    losses = reading.scalars(tb, "train_loss")
    assert [step for step, _ in losses] == [10 * step for step in range(1, 13)]
    loss = run.passport["losses"]["train_loss"]
    assert loss["count"]["value"] == 13
    assert loss["first"]["value"]["value"] == pytest.approx(losses[0][1])
    assert loss["best"]["value"]["value"] == pytest.approx(min(value for _, value in losses))
    assert loss["last"]["value"] is None
    assert "lr" not in run.passport["losses"]
    assert problems(run.passport) == []
    assert run.value("observation.failures") == []
    assert run.value("observation.unknown_records") == 0
    assert reading.rows(tb)[-1][1]["trainmeter/tokens"] == 12 * 4 * 16


def test_outside_of_tm_emit_does_nothing(launch, script):
    ended = launch.bare(PYTHON, script)
    assert (ended.code, ended.stdout, ended.stderr) == (0, b"None\n" * 12, "")


def test_importing_emit_loads_nothing():
    code = "import sys; known = set(sys.modules); from trainmeter_core import emit; emit(loss=1.0, step=1); print(sorted(set(sys.modules) - known))"
    told = subprocess.run(
        [
            PYTHON,
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(Path(reading.__file__).parents[2] / 'src')!r}); {code}",
        ],
        capture_output=True,
        text=True,
    )
    assert (
        told.stdout == "['__future__', 'trainmeter_core', 'trainmeter_core.emitting', 'trainmeter_core.version']\n"
    ), told.stderr


def test_a_program_without_torch_may_emit(launch):
    """As a JAX loop does: no optimizer is seen, and the losses are there all the same."""
    run = launch.tm(
        "--", PYTHON, "-c", "from trainmeter_core import emit\nfor s in range(5): emit(loss=5.0 - s, step=s)"
    )
    assert run.code == 0
    assert reading.scalars(run.directory / "tb", "loss") == [(step, 5.0 - step) for step in range(5)]
    assert run.passport["losses"]["loss"]["last"]["step"]["value"] == 4
    assert not run.value("data.steps")
