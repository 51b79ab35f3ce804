"""`tm selftest` of a program with three trackers, weights and all: nothing of the user's differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")


def test_a_program_with_three_trackers_is_the_same_in_everything(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    program = (PROGRAMS / "three_trackers.py").read_text()
    (folder / "train.py").write_text(program + 'torch.save(model.state_dict(), "model.pt")\nrun.finish()\n')
    result = tmp_path / "result.json"
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRAINMETER_", "WANDB_", "MLFLOW_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "trainmeter_core", "selftest", "--json", str(result), "train.py", "runs"],
        cwd=folder, capture_output=True, text=True, timeout=280,
        env={**env, "OMP_NUM_THREADS": "1", "WANDB_DISABLE_GIT": "true", "WANDB_ERROR_REPORTING": "false"},
    )  # fmt: skip
    told = json.loads(result.read_text())
    assert (done.returncode, told["differs"]) == (0, False), done.stdout
    states = {row["what"]: row["state"] for row in told["rows"]}
    for name in ("how it ended", "stdout", "TensorBoard runs", "W&B run 1", "files written"):
        assert states[name] == "same", told["rows"]
    assert "MLflow run 1" in states  # its run name is random
    assert not list(folder.rglob("*tfevents*"))
