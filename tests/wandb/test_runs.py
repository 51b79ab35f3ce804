"""Several runs, threads, forks, resumption: each run gets its own series, and no run another's."""

from __future__ import annotations

from tests.wandb.conftest import users


def by_name(backend, name):
    return next(run for run in backend.runs.values() if run.name == name)


def test_live_runs_side_by_side_each_get_the_series(program, backend):
    """With reinit="create_new" there is no wandb.run; all state is by run object."""
    program(
        """
        first = wandb.init(project="p", id="first", reinit="create_new")
        second = wandb.init(project="p", id="second", reinit="create_new")
        for step in range(3):
            agent.step()
            first.log({"a": step})
            second.log({"b": step})
        first.finish()
        agent.step()
        second.log({"b": 3})
        """,
        env=backend.environment(),
    )
    first, second = by_name(backend, "first"), by_name(backend, "second")
    assert [row["trainmeter/step"] for row in first.history] == [1, 2, 3, 3]
    assert [row["trainmeter/step"] for row in second.history] == [1, 2, 3, 4, 4]
    assert not backend.unknown_ops


def test_runs_of_a_sweep_in_one_process_each_count_from_their_own_start(program, backend):
    """Charts, panels, passport, config and summary: what the process did before a run began is no part of it."""
    program(
        """
        for trial in range(3):
            with wandb.init(project="p", id=f"trial{trial}") as run:
                for step in range(2):
                    agent.step()
                    run.log({"a": step})
        """,
        env=backend.environment(),
    )
    for trial in range(3):
        run = by_name(backend, f"trial{trial}")
        assert [row["trainmeter/step"] for row in run.history] == [1, 2, 2], trial
        assert sum("trainmeter/passport" in row for row in run.history) == 1
        assert "trainmeter/where_the_time_goes_table" in run.history[-1]
        assert run.summary["trainmeter/step"] == 2
        assert run.user_config()["trainmeter"]["family"] == "gpt2"
    assert len([e for e in backend.artifacts.values() if e["given"]["artifactTypeName"] == "trainmeter-passport"]) == 3
    assert not backend.unknown_ops


def test_a_run_that_begins_while_another_is_live_counts_from_its_own_start(program, backend):
    program(
        """
        first = wandb.init(project="p", id="first", reinit="create_new")
        for step in range(3):
            agent.step()
            first.log({"a": step})
        second = wandb.init(project="p", id="second", reinit="create_new")
        second.log({"b": -1})
        for step in range(2):
            agent.step()
            first.log({"a": step})
            second.log({"b": step})
        """,
        env=backend.environment(),
    )
    first, second = by_name(backend, "first"), by_name(backend, "second")
    assert first.summary["trainmeter/step"] == 5
    assert [row.get("trainmeter/step") for row in second.history] == [None, 1, 2, 2]
    assert second.summary["trainmeter/tokens"] == 2 * 524289
    assert not backend.unknown_ops


def test_a_later_run_that_never_trains_gets_nothing_of_the_one_before(program, backend):
    program(
        """
        with wandb.init(project="p", id="first") as run:
            agent.step()
            run.log({"a": 1})
        with wandb.init(project="p", id="second") as run:
            run.log({"a": 1})
        """,
        env=backend.environment(),
    )
    second = by_name(backend, "second")
    assert not any(name.startswith("trainmeter") for row in second.history for name in row)
    assert "trainmeter" not in second.user_config()


def test_a_resumed_run_goes_on_from_its_sums(program, backend):
    body = """
        run = wandb.init(project="p", id="again", resume="allow")
        for step in range(3):
            agent.step()
            run.log({"a": step})
        """
    program(body, env=backend.environment())
    program(body, env=backend.environment())
    run = backend.only_run()
    assert [row["trainmeter/step"] for row in run.history] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert run.summary["trainmeter/tokens"] == 6 * 524289
    assert [row["_step"] for row in run.history] == list(range(8))
    assert not backend.unknown_ops


def test_threads_and_forked_children_log_as_they_would_without_us(program, backend):
    """Logging from many threads keeps every value; what a forked child logs to its parent's run stays as it is."""
    done = program(
        """
        import threading
        run = wandb.init(project="p")
        def work(name):
            for step in range(20):
                agent.step()
                run.log({name: step})
        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        pid = os.fork()
        if not pid:
            agent.step()
            run.log({"child": 1})
            plugin.finish(agent)
            os._exit(len(agent.places) != 1 or any("child" in each for each in agent.observed))
        assert os.waitpid(pid, 0)[1] == 0
        run.finish()
        """,
        env=backend.environment(),
    )
    assert done.code == 0, done.stderr
    run = backend.only_run()
    logged = {name: [row[name] for row in run.history if name in row] for name in "abc"}
    assert logged == {name: list(range(20)) for name in "abc"}
    from_child = [row for row in run.history if "child" in row]  # none where the child ended before the client sent it
    assert [row["_step"] for row in run.history] == list(range(61 + len(from_child)))
    assert not any(name.startswith("trainmeter/") for row in from_child for name in row)
    assert sum("trainmeter/passport" in row for row in run.history) == 1
    assert not backend.unknown_ops


def test_a_disabled_run_and_an_undone_tap_publish_nothing(program, backend):
    done = program(
        """
        run = wandb.init(project="p", mode="disabled")
        agent.step()
        run.log({"a": 1})
        run.finish()
        assert not agent.places and not agent.logging_calls
        tapped = {name: run_module.Run.__dict__[name] for name in ("_log", "_on_start", "_finish")}
        undo()
        assert all(run_module.Run.__dict__[name] is tapped[name].__wrapped__ for name in tapped)
        run = wandb.init(project="p", id="bare")
        run.log({"a": 1})
        """,
        env=backend.environment(),
    )
    assert done.code == 0, done.stderr
    assert [row["a"] for row in users(backend.only_run().history)] == [1]
    assert not any(name.startswith("trainmeter/") for row in backend.only_run().history for name in row)


def test_the_run_is_announced_once_with_its_url_and_losses_are_told(program, backend):
    done = program(
        """
        run = wandb.init(project="p", id="here")
        for step in range(2):
            agent.step()
            run.log({"train": {"loss": 0.5}, "loss": 2.0, "note": "text", "ok": True})
        """,
        env=backend.environment(),
    )
    where = {"id": "here", "entity": "stub", "project": "p", "url": backend.url + "/stub/p/runs/here"}
    assert done.agent["places"] == [["wandb", where]]
    assert done.agent["observed"][0] == {"train.loss": 0.5, "loss": 2.0}
    assert done.agent["logging_calls"] == 2


def test_a_client_without_the_private_method_is_tapped_at_its_public_one(program, backend):
    """`Run._log` is private: where it is gone or has other parameters, `Run.log` is taken."""
    program(
        """
        undo()
        original = run_module.Run._log
        run_module.Run._log = lambda self, data, commit=None, step=None: original(self, data, step, commit)
        undo = plugin.install_tap(run_module, agent)
        run = wandb.init(project="p")
        for step in range(2):
            agent.step()
            wandb.log({"a": step})
        """,
        env=backend.environment(),
    )
    rows = backend.only_run().history
    assert [row["trainmeter/step"] for row in rows if "a" in row] == [1, 2]
