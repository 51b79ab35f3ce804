"""Our series in the client's own System section: its own sampler asks `tm`'s endpoint, beside the user's endpoints."""

from __future__ import annotations

import json

import pytest

from tests.wandb.test_frameworks import LOOP, written
from trainmeter_wandb.scrape import ENDPOINTS, environment

OURS = "http://127.0.0.1:1/series"


def test_our_endpoint_is_added_to_those_of_the_user():
    assert json.loads(environment(OURS, {})[ENDPOINTS]) == {"trainmeter": OURS}
    theirs = {"dcgm": "http://gpu:9400/metrics"}
    assert json.loads(environment(OURS, {ENDPOINTS: json.dumps(theirs)})[ENDPOINTS]) == {"trainmeter": OURS, **theirs}


@pytest.mark.parametrize(
    "base",
    [
        {"WANDB_X_DISABLE_STATS": "true"},
        {"WANDB__DISABLE_STATS": "1"},
        {ENDPOINTS: "not json"},
        {ENDPOINTS: "[]"},
    ],
)
def test_statistics_that_are_off_or_a_setting_of_another_form_are_left_alone(base):
    assert environment(OURS, base) == {}
    assert environment("", {}) == {}


def test_the_system_section_of_a_run_under_tm_has_our_series(tm, backend, tmp_path):
    script = written(tmp_path, LOOP, STEPS=30, PAUSE=0.1)
    sampling = {"WANDB_X_DISABLE_STATS": "false", "WANDB_X_STATS_SAMPLING_INTERVAL": "0.5"}
    done = tm(["--peak-tflops", "0.001", script], env=backend.environment(), **sampling)
    assert done.returncode == 0, done.stderr
    run = backend.only_run()
    names = {name for row in run.events for name in row if "openmetrics" in name}
    assert {"system.openmetrics.trainmeter.tokens_per_s.0", "system.openmetrics.trainmeter.time_step.0"} <= names
    assert not any("node_" in name for name in names)  # the client reads the node itself
    assert any("system.cpu" in name for row in run.events for name in row)
    assert [row["loss"] for row in run.history if "loss" in row] != []
    assert not backend.unknown_ops


def test_the_users_own_filters_and_endpoints_of_the_client_hold(tm, backend, tmp_path):
    """A filter holds for ours as for any; endpoints in the script's settings take the place of ours."""
    sampling = {"WANDB_X_DISABLE_STATS": "false", "WANDB_X_STATS_SAMPLING_INTERVAL": "0.5"}
    filtered = {"WANDB_X_STATS_OPEN_METRICS_FILTERS": json.dumps([r"trainmeter\.time_.*"])}
    script = written(tmp_path, LOOP, STEPS=20, PAUSE=0.1)
    assert tm([script], env=backend.environment(), **sampling, **filtered).returncode == 0
    run = backend.runs.pop(next(iter(backend.runs)))
    names = {name for row in run.events for name in row if "openmetrics" in name}
    assert names
    assert all(name.startswith("system.openmetrics.trainmeter.time_") for name in names)

    theirs = 'wandb.init(project="p", settings=wandb.Settings(x_stats_open_metrics_endpoints={"mine": "http://127.0.0.1:9/m"}))'
    script = written(tmp_path, LOOP.replace('wandb.init(project="p")', theirs), STEPS=20, PAUSE=0.1)
    assert tm([script], env=backend.environment(), **sampling).returncode == 0
    run = backend.only_run()
    assert not any("openmetrics" in name for row in run.events for name in row)
    assert any("system.cpu" in name for row in run.events for name in row)
    assert run.summary["trainmeter/step"] == 20
