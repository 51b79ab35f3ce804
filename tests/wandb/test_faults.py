"""A backend that is slow, broken or gone costs the user's program what it would without us, and none of its data."""

from __future__ import annotations

from typing import Any

import pytest

from tests.known import known
from tests.wandb.conftest import users

BODY = """
run = wandb.init(project="p")
for step in range(5):
    agent.step()
    run.log({"loss": step})
run.finish()
"""
FAULTS: dict[str, dict[str, Any]] = {
    "slow": {"delay_s": 0.3},
    "500 twice": {"statuses": [500, 500]},
    "404 for ever": {"always": 404},
    "closes early": {"close_early": True},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_program_ends_as_it_would_and_its_data_is_whole(program, backend, fault):
    for name, value in FAULTS[fault].items():
        setattr(backend, name, value)
    limits = {"WANDB_X_FILE_STREAM_RETRY_MAX": "2", "WANDB_X_FILE_STREAM_RETRY_WAIT_MAX_SECONDS": "1"}
    done = program(BODY, env=backend.environment(), **limits)
    assert done.code == 0, done.stderr
    run = backend.only_run()
    if fault in ("slow", "500 twice"):
        assert [row["loss"] for row in users(run.history)] == [0, 1, 2, 3, 4]
        assert run.history[-1]["trainmeter/step"] == 5
    assert done.agent["steps"] == 5


def test_the_end_of_a_run_asks_the_server_nothing(program, backend):
    """All that the closing row brings is handed to the client's own process, which sends it in its own time."""
    program(
        """
        import time
        run = wandb.init(project="p")
        agent.step()
        run.log({"loss": 1})
        begin = time.monotonic()
        plugin._publishers[id(agent)].closes(run)
        assert time.monotonic() - begin < 2, time.monotonic() - begin
        """,
        env=backend.environment(),
    )
    assert "ArtifactType" not in backend.operations.counts


def test_a_backend_that_goes_away_in_the_middle_leaves_the_data_on_disk(program, backend, tmp_path):
    """The client keeps everything in its own file, from where `wandb sync` sends it later."""
    done = program(
        """
        import urllib.request
        run = wandb.init(project="p", settings=wandb.Settings(
            x_file_stream_retry_max=1, x_file_stream_retry_wait_max_seconds=1,
            x_graphql_retry_max=1, x_graphql_retry_wait_max_seconds=1,
            x_file_transfer_retry_max=1, x_file_transfer_retry_wait_max_seconds=1))
        urllib.request.urlopen(os.environ["WANDB_BASE_URL"] + "/go-away").read()
        for step in range(5):
            agent.step()
            run.log({"loss": step})
        run.finish()
        """,
        env=backend.environment(),
    )
    assert done.code == 0, done.stderr
    from trainmeter_wandb.read import local_file, read_file

    (directory,) = (tmp_path / "wandb").glob("run-*")
    run = read_file(known(local_file(str(directory))))
    assert run.series["loss"].last.value == 4
    assert run.series["trainmeter/step"].last.value == 5
    assert run.page is not None


@pytest.mark.parametrize("tapped", [False, True], ids=["without us", "with us"])
def test_a_backend_that_was_never_there_is_the_clients_own_error(program, backend, tapped):
    backend.down = True
    done = program(
        """
        try:
            wandb.init(project="p", settings=wandb.Settings(init_timeout=3, x_graphql_retry_max=1))
        except wandb.Error:
            sys.exit(9)
        """,
        env=backend.environment(),
        tapped=tapped,
    )
    assert done.code == 9, done.stderr
