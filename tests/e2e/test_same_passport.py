"""One training run, seen through its run directory and through each of its trackers, gives the same passport."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mlflow_server import tracking_server
from tests.fakes.wandb import ENTITY, Backend
from tests.wandb.conftest import run_tm
from trainmeter_core.passport.check import check
from trainmeter_core.passport.same import MAY_DIFFER, differences

pytest.importorskip("torch")
pytest.importorskip("tensorboard")
pytest.importorskip("mlflow")

PROGRAM = Path(__file__).with_name("programs") / "three_trackers.py"
STEPS, TOKENS = 12, 48 * 32
SOURCES = ("tensorboard", "wandb", "mlflow")


@dataclass
class Seen:
    """The passport in the run directory, and those that each tracker alone gives."""

    here: dict[str, Any]
    there: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["files", "servers"])
def seen(request, tmp_path_factory):
    """The run with its trackers as files (a .wandb file, a database), and with their servers."""
    folder = tmp_path_factory.mktemp(request.param)
    env = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with contextlib.ExitStack() as stack:
        if request.param == "servers":
            backend = stack.enter_context(Backend())
            env |= {**backend.environment(), "MLFLOW_TRACKING_URI": stack.enter_context(tracking_server(folder))}
        else:
            env |= {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}

        def tm(*words):
            done = run_tm(folder, list(words), env=env)
            assert done.returncode == 0, done.stderr
            return done.stdout

        goal = ["--peak-tflops", "1", "--convention", "hf", "--budget-steps", str(STEPS)]
        tm(*goal, sys.executable, str(PROGRAM), str(folder / "logs"))
        [directory] = folder.glob("trainmeter/runs/*")
        here = json.loads((directory / "passport.json").read_text())
        places = {each["tracker"]: each["where"] for each in here["identity"]["trackers"]}
        if request.param == "servers":
            run = f"wandb:{ENTITY}/{places['wandb']['project']}/{places['wandb']['id']}"
        else:
            [run] = map(str, folder.glob("wandb/offline-run-*/*.wandb"))
        refs = {"tensorboard": str(folder / "logs"), "wandb": run, "mlflow": f"mlflow:{places['mlflow']['run_id']}"}
        there = json.loads(tm("passport", *refs.values(), "--json"))
        yield Seen(here, dict(zip(refs, there, strict=True)))


@pytest.mark.parametrize("source", SOURCES)
def test_a_run_read_from_a_tracker_is_the_run_in_its_directory_but_for_the_listed_fields(seen, source):
    here, there = seen.here, seen.there[source]
    assert here["data"]["steps"]["value"] == STEPS
    assert here["data"]["tokens"]["value"] == TOKENS
    assert here["efficiency"]["mfu_pct"] is not None
    assert here["identity"]["script"] == str(PROGRAM)
    assert differences(here, there) == []
    assert check(here) == check(there) == []


@pytest.mark.parametrize("source", SOURCES)
def test_a_trackers_copy_names_that_tracker_as_the_run_directory_does(seen, source):
    """What began only after the copy was written cannot be in it."""
    known = seen.here["identity"]["trackers"]
    assert sorted(each["tracker"] for each in known) == sorted(SOURCES)
    told = {each["tracker"]: each["where"] for each in seen.there[source]["identity"]["trackers"]}
    assert source in told
    for each in known:
        assert told.get(each["tracker"], {}).items() <= each["where"].items()


def test_the_fields_that_may_differ_are_fields_of_a_passport(seen):
    for name in MAY_DIFFER:
        part = seen.here
        for step in name.split("."):
            assert step in part, name
            part = part[step]
