"""What the user logged is in their run as it would be without us; ours stands in the same rows, and in one more."""

from __future__ import annotations

import shutil

import pytest

from tests.known import known
from tests.wandb.conftest import users
from trainmeter_wandb.read import local_file
from trainmeter_wandb.transaction_log import records

PLAIN = """
    run = wandb.init(project="p", id="golden", config={"lr": 0.1})
    for step in range(6):
        agent.step()
        wandb.log({"loss": 1 / (step + 1), "nested": {"a": step}})
    wandb.summary["best"] = 7
"""
EXPLICIT_STEPS = """
    run = wandb.init(project="p", id="golden")
    for step in range(0, 60, 10):
        agent.step()
        run.log({"loss": step}, step=step)
        run.log({"val": -step}, step=step)
    run.log({"late": 1}, step=5)
    run.finish()
"""
COMMITS = """
    run = wandb.init(project="p", id="golden")
    for step in range(6):
        agent.step()
        run.log({"a": step}, commit=False)
        run.log({"b": step}, commit=False)
        run.log({"c": step})
    run.log({"tail": 1}, commit=False)
    run.finish()
"""
MIXED = """
    run = wandb.init(project="p", id="golden")
    run.define_metric("epoch")
    run.define_metric("val/*", step_metric="epoch")
    run.log({})
    for step in range(4):
        agent.step()
        run.log({"loss": step, "name": "x", "hist": wandb.Histogram([1, 2, step])})
        run.log({"val/loss": step, "epoch": step}, step=10 * step + 1, commit=True)
    run.finish(exit_code=3)
"""


@pytest.mark.parametrize("body", [PLAIN, EXPLICIT_STEPS, COMMITS, MIXED], ids=["plain", "steps", "commits", "mixed"])
def test_the_users_history_is_the_same_with_and_without_the_tap(program, backend, body):
    """Golden: history minus ours and the clock is identical, with at most one row more."""
    program(body, env=backend.environment(), tapped=False)
    without = backend.runs.pop(next(iter(backend.runs)))
    program(body, env=backend.environment())
    with_tap = backend.only_run()

    assert users(with_tap.history) == users(without.history)
    assert [row["_step"] for row in without.history] == [row["_step"] for row in with_tap.history][
        : len(without.history)
    ]
    assert len(with_tap.history) - len(without.history) in (0, 1)
    assert sum("trainmeter/passport" in row for row in with_tap.history) == 1
    assert with_tap.exitcode == without.exitcode
    ours = {name: value for name, value in with_tap.summary.items() if not name.startswith("trainmeter/")}
    clocks = ("_timestamp", "_runtime", "_wandb", "_step")
    assert {n: v for n, v in ours.items() if n not in clocks} == {
        n: v for n, v in without.summary.items() if n not in clocks
    }
    assert {n: v for n, v in with_tap.user_config().items() if n != "trainmeter"} == without.user_config()
    assert not backend.unknown_ops


@pytest.mark.parametrize("body", [PLAIN, EXPLICIT_STEPS, COMMITS, MIXED], ids=["plain", "steps", "commits", "mixed"])
def test_offline_the_users_rows_are_the_same_as_well(program, tmp_path, body):
    found = {}
    for tapped in (False, True):
        program(body, env={}, tapped=tapped)
        (directory,) = (tmp_path / "wandb").glob("offline-run-*")
        kinds = [(record.WhichOneof("record_type"), record) for record in records(known(local_file(str(directory))))]
        rows = [
            {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
            for kind, record in kinds
            if kind == "history"
        ]
        found[tapped] = [{key: value for key, value in row.items() if key != "_wandb"} for row in rows]
        shutil.rmtree(directory)
    assert users(found[True]) == users(found[False])
    assert len(found[True]) - len(found[False]) in (0, 1)
    assert sum(any(name.startswith("trainmeter/passport") for name in row) for row in found[True]) == 1


def test_plain_auto_steps_get_exactly_one_closing_row(program, backend):
    program(PLAIN, env=backend.environment())
    history = backend.only_run().history
    assert [row["_step"] for row in history] == [0, 1, 2, 3, 4, 5, 6]
    assert [row["trainmeter/step"] for row in history] == [1, 2, 3, 4, 5, 6, 6]
    assert not backend.unknown_ops


def test_a_row_is_merged_into_once_however_many_calls_build_it(program, backend):
    """Ours belongs to the step at which the row was begun."""
    program(
        """
        run = wandb.init(project="p")
        for step in range(3):
            agent.step()
            run.log({"a": step}, step=step)
            agent.step()
            run.log({"b": step}, step=step)
        """,
        env=backend.environment(),
    )
    rows = [row for row in backend.only_run().history if "a" in row][:-1]
    assert [row["trainmeter/step"] for row in rows] == [1, 3]


def test_at_most_one_publication_a_second(program, backend):
    program(
        """
        run = wandb.init(project="p")
        for step in range(200):
            agent.step()
            run.log({"a": step})
        """,
        env=backend.environment(),
        ROW_EVERY="30",
    )
    rows = [row for row in backend.only_run().history if "trainmeter/step" in row]
    assert len(rows) == 2  # the first, and the closing one
    assert rows[-1]["trainmeter/step"] == 200


def test_the_users_own_mapping_is_left_as_it_was(program, backend):
    done = program(
        """
        run = wandb.init(project="p")
        agent.step()
        mine = {"loss": 1.0, "trainmeter/mfu_pct": 7.0}
        run.log(mine)
        assert mine == {"loss": 1.0, "trainmeter/mfu_pct": 7.0}
        for bad in ([1], "text", {1: 2}):
            try:
                run.log(bad)
            except (TypeError, ValueError):  # older clients raise the latter
                continue
            raise AssertionError("the client's own check did not raise")
        """,
        env=backend.environment(),
    )
    assert done.code == 0, done.stderr
    assert backend.only_run().history[0]["trainmeter/mfu_pct"] == 7.0  # the user's own value stands


def test_our_charts_have_the_optimizer_step_as_their_axis(program, backend):
    program(PLAIN, env=backend.environment())
    metrics = backend.only_run().settings_of_config["m"]
    assert any("trainmeter/step" in str(metric.values()) for metric in metrics)
