"""The example of a third party's adapter, installed beside trainmeter in an environment with the real Trackio."""

from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.known import known

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "trainmeter-trackio"
# Trackio and those of its requirements that the environment of the tests lacks.
TRACKIO = ("trackio>=0.43", "gradio_client", "orjson", "pillow")
TRAIN = """
import torch, trackio
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trackio.init(project="p", name="r", auto_log_cpu=False)
losses = []
for step in range(7):
    loss = model(torch.arange(32).view(2, 16) % 16).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
    trackio.log({"loss": losses[-1], "trainmeter/step": "mine"}, step=10 * step)
trackio.finish()
print(losses)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An environment that sees the packages of this one, and has Trackio and the adapter besides."""
    place = tmp_path_factory.mktemp("trackio")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    [site] = place.glob("lib/python*/site-packages")
    specs = [known(importlib.util.find_spec(name)) for name in ("trainmeter_core", "torch")]
    seen = [str(Path(known(spec.origin)).parents[1]) for spec in specs]
    (site / "packages_of_the_tests.pth").write_text("\n".join(dict.fromkeys(seen)) + "\n")
    install = (sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-deps")
    done = run(*install, *TRACKIO)
    if done.returncode:  # no package index answers; CI allows no skip
        pytest.skip("Trackio cannot be installed here: " + (done.stderr.strip().splitlines() or ["no reason"])[-1])
    done = run(*install, "--no-build-isolation", EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINMETER", "PYTHON", "TM"))}
    return subprocess.run(
        [str(word) for word in words], env={**env, **variables}, capture_output=True, text=True, timeout=280
    )


def logged(place: Path) -> list[tuple[int, dict]]:
    with sqlite3.connect(place / "trackio" / "p.db") as database:
        found = database.execute("SELECT step, metrics FROM metrics ORDER BY id").fetchall()
    return [(step, json.loads(metrics)) for step, metrics in found]


@pytest.fixture(scope="module")
def ended(python, tmp_path_factory):
    """How the program ended under `tm`, and the rows that Trackio holds."""
    place = tmp_path_factory.mktemp("run")
    (place / "train.py").write_text(TRAIN)
    variables = {"TRACKIO_DIR": str(place / "trackio"), "TRAINMETER_HOME": str(place / "home")}
    done = run(python, "-m", "trainmeter_core", "--no-web", place / "train.py", **variables)
    assert done.returncode == 0, done.stderr
    return done, logged(place)


def test_the_users_rows_are_as_they_logged_them_but_for_what_is_added(ended):
    done, rows = ended
    losses = json.loads(done.stdout.splitlines()[-1])
    assert [(step, row["loss"], row["trainmeter/step"]) for step, row in rows[:-1]] == [
        (10 * step, loss, "mine") for step, loss in enumerate(losses)
    ], "also what the user logs under a name of ours stays the user's"


def test_the_closing_row_holds_the_series_and_the_passport_at_the_last_step(ended):
    _, rows = ended
    step, row = rows[-1]
    assert (step, row["trainmeter/step"], row["trainmeter/tokens"]) == (60, 7, 7 * 32)
    assert "# Training passport" in row["trainmeter/passport"]["_value"]


def test_tm_says_how_to_look_at_the_run_and_of_no_failure(ended):
    looked, numbers = ended[0].stderr.splitlines()
    assert looked == "tm: look at this run: trackio show --project p"
    assert numbers.startswith("tm: 7 steps")


def test_it_is_short():
    """What the page on adapters says of it."""
    assert len((EXAMPLE / "trainmeter_trackio.py").read_text().splitlines()) <= 60
