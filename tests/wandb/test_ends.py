"""However a script ends, the closing row and the passport are in the run, and the exit code is the script's own."""

from __future__ import annotations

import json

import pytest

from tests.fakes.wandb import Backend
from tests.wandb.conftest import run_program

BODY = """
run = wandb.init(project="p", config={"lr": 0.1})
for step in range(3):
    agent.step()
    wandb.log({"loss": step})
agent.step()
"""
ENDS = {
    "finish": ("wandb.finish()", 0),
    "with": ("run.__exit__(None, None, None)", 0),
    "falls off the end": ("", 0),
    "raises": ("raise RuntimeError('the user has a bug')", 1),
    "sys.exit": ("sys.exit(7)", 7),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_ordinary_end_closes_the_run(program, backend, end):
    line, code = ENDS[end]
    done = program(BODY + line + "\n", env=backend.environment())
    run = backend.only_run()
    assert done.code == code
    assert run.exitcode == code
    last = run.history[-1]
    assert last["trainmeter/step"] == 4
    assert last["trainmeter/passport"]["_type"] == "html-file"
    assert [row["loss"] for row in run.history if "loss" in row] == [0, 1, 2]
    assert sum("trainmeter/passport" in row for row in run.history) == 1
    assert not backend.unknown_ops


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The backend after one run of a script with a bad name."""
    with Backend() as backend:
        directory = tmp_path_factory.mktemp("closed")
        run_program(directory, BODY, env=backend.environment(), SCRIPT="<script>alert('x')</script> & co.py")
        yield backend
        assert not backend.unknown_ops


@pytest.fixture
def closed(finished):
    return finished.only_run()


def test_the_panels_are_in_the_closing_row(closed):
    last = closed.history[-1]
    kinds = {name: value["_type"] for name, value in last.items() if isinstance(value, dict)}
    assert kinds == {
        "trainmeter/utilization_ladder_table": "table-file",
        "trainmeter/where_the_time_goes_table": "table-file",
        "trainmeter/mfu_by_convention": "table-file",
        "trainmeter/passport": "html-file",
    }
    charts = closed.settings_of_config["visualize"]
    assert {name: chart["panel_config"]["panelDefId"] for name, chart in charts.items()} == {
        "trainmeter/utilization_ladder": "wandb/bar/v0",
        "trainmeter/where_the_time_goes": "wandb/bar/v0",
    }
    table = json.loads(closed.files[last["trainmeter/mfu_by_convention"]["path"]])
    headline = dict(zip(table["columns"], table["data"][0], strict=True))
    assert (headline["convention"], headline["headline"], headline["peak_tflops"]) == ("torchtitan", True, 0.5)


def test_the_passport_panel_is_one_safe_file(closed):
    page = closed.files[closed.history[-1]["trainmeter/passport"]["path"]].decode()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; co.py" in page
    assert "<script>alert" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_summary_and_config_hold_the_whole_run(closed):
    """Rates over the run, not over its last second: 512 tokens in half a second."""
    assert closed.summary["trainmeter/tokens_per_s"] == 1024
    assert closed.summary["trainmeter/step"] == 4
    assert 0 < closed.summary["trainmeter/mfu_pct"] < 0.5
    facts = closed.user_config()["trainmeter"]
    assert (facts["convention"], facts["family"], facts["sequence_length"]) == ("torchtitan", "gpt2", 64)
    assert closed.user_config()["lr"] == 0.1


def test_the_passport_is_an_artifact(closed, finished):
    made = [each for each in finished.artifacts.values() if each["given"]["artifactTypeName"] == "trainmeter-passport"]
    assert len(made) == 1
    assert made[0]["committed"]
    assert set(made[0]["files"]) == {"passport.json", "passport.md"}
    assert made[0]["given"]["artifactCollectionName"] == f"trainmeter-passport-{closed.name}"
    written = next(blob for key, blob in finished.blobs.items() if key.endswith("passport.json"))
    assert json.loads(written)["version"] == "trainmeter-passport/1"


def test_a_program_that_never_trains_gets_nothing_of_ours(program, backend):
    program("run = wandb.init(project='p')\nrun.log({'a': 1})\n", env=backend.environment())
    run = backend.only_run()
    assert [row.keys() - {"_step", "_timestamp", "_runtime"} for row in run.history] == [{"a"}]
    assert "trainmeter" not in run.user_config()
    assert not backend.artifacts
