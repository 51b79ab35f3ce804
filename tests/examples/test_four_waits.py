"""The page on the ladder shows what the example's options do; that they do it is held here, how much is a measurement."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

EXAMPLE = ROOT / "examples" / "four_waits.py"
REMEDY = {
    "data_wait": "--workers 4",
    "logging": "--log-every 50",
    "eval": "--eval-every 100",
    "checkpoint": "--save-every 100",
}
STEPS, READ_MS = 50, 20


def seconds(folder, *options) -> dict[str, float]:
    """Seconds by kind of time, of one run under tm."""
    pytest.importorskip("mlflow")
    folder.mkdir()
    env = {**os.environ, "TRAINMETER_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "trainmeter_core", "--no-web", EXAMPLE]
    words += ["--steps", str(STEPS), "--read-ms", str(READ_MS), *options]
    done = subprocess.run([str(word) for word in words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [passport] = (folder / "home").glob("runs/*/passport.json")
    told = json.loads(passport.read_text())
    return {kind: each["value"] for kind, each in told["time"]["rank_seconds"].items() if each}


def test_every_wait_is_seen_and_its_remedy_takes_most_of_it_out(tmp_path):
    """By construction an option leaves a tenth or less of the calls; the reads go on beside the steps."""
    before = seconds(tmp_path / "before")
    after = seconds(tmp_path / "after", *" ".join(REMEDY.values()).split())
    assert {kind: before[kind] > 2 * after[kind] for kind in REMEDY} == dict.fromkeys(REMEDY, True), (before, after)


def test_the_page_names_each_wait_with_its_option():
    page = (ROOT / "docs" / "ladder.md").read_text()
    for kind, option in REMEDY.items():
        assert re.search(rf"\| `{kind}` \|.*`{option}`", page), kind
