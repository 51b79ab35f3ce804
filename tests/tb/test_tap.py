"""What the user wrote is in their event file as it would be without us; ours stands beside it."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest

from tests.tb import reading
from tests.tb.agent_in_test import Agent
from trainmeter_tb import plugin


def user_program(writer_class, logdir, agent=None) -> None:
    """Everything that scripts do with a SummaryWriter, at fixed times."""
    writer = writer_class(str(logdir), purge_step=3)
    writer.add_text("config", "| a | b |", 0, walltime=1.0)
    for step in range(40):
        if agent is not None:
            agent.step()
        writer.add_scalar("loss", 1 / (step + 1), step, walltime=float(step))
        writer.add_scalars("split", {"train": step, "val": -step}, step, walltime=float(step))
        if step % 10 == 0:
            writer.add_histogram("weights", np.arange(10.0) + step, step, walltime=float(step))
    writer.add_hparams({"lr": 0.1}, {"hparam/loss": 0.5}, **hparams_run(writer_class))
    writer.close()
    writer.add_scalar("after/close", 7.0, 41, walltime=41.0) if reopens(writer_class) else None
    writer.close()


def hparams_run(writer_class) -> dict[str, str]:
    return {"name": "trial"} if "tensorboardX" in writer_class.__module__ else {"run_name": "trial"}


def reopens(writer_class) -> bool:
    return "tensorboardX" not in writer_class.__module__


def as_written(logdir) -> dict[str, list[bytes]]:
    """The user's events of each run below a directory, without the times that the clock gave."""
    told: dict[str, list[bytes]] = {}
    for directory, _inner, names in os.walk(logdir):
        if any("tfevents" in name for name in names):
            events = reading.user_events(directory)
            for event in events:
                if event.WhichOneof("what") in ("file_version", "session_log") or event.wall_time > 1e9:
                    event.wall_time = 0
                for value in event.summary.value:
                    if "_hparams_" in value.tag:
                        value.ClearField("metadata")  # it holds the clock's time
            told[os.path.relpath(directory, logdir)] = [event.SerializeToString() for event in events]
    return told


def test_the_users_events_are_the_same_with_and_without_the_tap(package, tmp_path):
    """Golden: every event of every run, in order, by its bytes."""
    user_program(package.SummaryWriter, tmp_path / "without")
    agent = Agent()
    undo = plugin.install_tap(package.module, agent)
    user_program(package.SummaryWriter, tmp_path / "with", agent)
    undo()
    plugin._publishers.clear()

    assert as_written(tmp_path / "with") == as_written(tmp_path / "without")
    assert len(reading.rows(tmp_path / "with")) >= 40
    assert not agent.failures


def test_our_series_go_to_the_main_run_only(tapped, agent, tmp_path):
    user_program(tapped.SummaryWriter, tmp_path, agent)
    runs = {
        os.path.relpath(directory, tmp_path): len(reading.rows(directory))
        for directory, _inner, names in os.walk(tmp_path)
        if any("tfevents" in name for name in names)
    }
    assert len(runs) >= 4
    assert runs.pop(".") >= 40
    assert set(runs.values()) == {0}


def test_a_row_has_the_step_and_time_of_the_scalar_beside_it_and_stands_after_it(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    for samples in (512, 1024, 1536):
        agent.step()
        writer.add_scalar("loss", 0.5, samples, walltime=samples / 2)
    writer.close()
    told = [(e.step, e.wall_time, len(e.summary.value)) for e in reading.events(tmp_path) if e.summary.value]
    single = [entry for entry in told if entry[0] and entry[1] < 1e6]
    assert [(s, w) for s, w, n in single if n == 1] == [(s, w) for s, w, n in single if n > 1]
    assert [n for _s, _w, n in single] == [1, 6] * 3


def test_counts_that_a_float32_cannot_hold_stand_exactly_beside_their_series(tapped, agent, tmp_path):
    """TensorBoard's default data server shows no double, so the series itself must be a simple_value."""
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in range(1, 102):
        agent.step()
        writer.add_scalar("loss", 0.5, step)
    writer.close()
    tokens = 101 * 524289
    assert float(np.float32(tokens)) != tokens
    assert reading.scalars(tmp_path, "trainmeter/tokens")[100] == (101, float(np.float32(tokens)))
    assert json.loads(reading.strings(tmp_path, reading.COUNTS_TAG)[-1][1]) == {"trainmeter/tokens": tokens}
    values = [v for e in reading.events(tmp_path) for v in e.summary.value if v.tag == "trainmeter/tokens"]
    assert {value.WhichOneof("value") for value in values} == {"simple_value"}


@pytest.mark.parametrize("style", [{"new_style": True}, {"new_style": True, "double_precision": True}])
def test_new_style_and_double_precision_scalars_are_seen(agent, tmp_path, style):
    """torch can write a scalar as a tensor; the agent is told the number as the user gave it."""
    from tensorboard.summary.writer import event_file_writer
    from torch.utils.tensorboard import SummaryWriter

    undo = plugin.install_tap(event_file_writer, agent)
    writer = SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 0.1, 5, **style)
    writer.close()
    undo()
    seen, step = agent.observed[0]
    assert step == 5
    assert seen["loss"] == pytest.approx(0.1, abs=0 if "double_precision" in style else 1e-8)
    assert reading.rows(tmp_path)[0][0] == 5


def test_add_scalars_alone_publishes_to_the_main_run(tapped, agent, tmp_path):
    """A user who only ever calls add_scalars still finds our series in the run that they opened."""
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in range(5):
        agent.step()
        writer.add_scalars("loss/all", {"train": 1.0, "val": 2.0}, step)
    writer.close()
    assert [step for step, _row in reading.rows(tmp_path)][:5] == [0, 1, 2, 3, 4]
    assert ({"loss/all/train": 1.0}, 4) in agent.observed
    assert ({"loss/all/val": 2.0}, 4) in agent.observed


def test_of_two_writers_side_by_side_the_one_with_the_training_curve_is_chosen(tapped, agent, tmp_path):
    """Evaluation may log first; the run that gets the most scalars with advancing steps is the one."""
    val = tapped.SummaryWriter(str(tmp_path / "val"))
    train = tapped.SummaryWriter(str(tmp_path / "train"))
    agent.step()
    val.add_scalar("loss", 3.0, 0)
    for step in range(60):
        agent.step()
        train.add_scalar("loss", 1.0, step)
        if step % 20 == 19:
            val.add_scalar("loss", 2.0, step)
    train.close()
    val.close()
    assert len(reading.rows(tmp_path / "train")) > 40
    assert len(reading.rows(tmp_path / "val")) <= 2
    assert len(reading.strings(tmp_path / "train", "trainmeter/passport")) == 1
    assert not reading.strings(tmp_path / "val", "trainmeter/passport")
    assert [where["logdir"] for _t, where in agent.places][-1] == str(tmp_path / "train")


def test_runs_one_after_another_each_get_their_own_series(tapped, agent, tmp_path):
    for run in ("first", "second"):
        writer = tapped.SummaryWriter(str(tmp_path / run))
        for step in range(3):
            agent.step()
            writer.add_scalar("loss", 1.0, step)
        writer.close()
    for run in ("first", "second"):
        assert len(reading.rows(tmp_path / run)) == 3
        assert len(reading.strings(tmp_path / run, "trainmeter/passport")) == 1
    assert [where["logdir"] for _t, where in agent.places] == [str(tmp_path / "first"), str(tmp_path / "second")]


def test_a_second_axis_with_smaller_steps_gets_no_rows(tapped, agent, tmp_path):
    """Epochs beside batches: our curve never jumps back to step 1."""
    writer = tapped.SummaryWriter(str(tmp_path))
    for batch in range(100, 200):
        agent.step()
        writer.add_scalar("loss", 1.0, batch)
        if batch % 50 == 49:
            agent.step()
            writer.add_scalar("epoch/accuracy", 0.5, batch // 100)
    writer.close()
    steps = [step for step, _row in reading.rows(tmp_path)]
    assert steps == sorted(steps)
    assert steps[0] == 100


def test_an_axis_that_starts_anew_is_followed(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in [0, 1, 2, 0, 1, 2]:
        agent.step()
        writer.add_scalar("loss", 1.0, step)
    writer.close()
    assert [step for step, _row in reading.rows(tmp_path)][:6] == [0, 1, 2, 0, 1, 2]


def test_without_steps_of_the_users_ours_stand_at_optimizer_steps(tapped, agent, tmp_path):
    """`add_scalar(tag, value)` puts everything at step 0; our series would be one vertical line there."""
    writer = tapped.SummaryWriter(str(tmp_path))
    for _ in range(10):
        agent.step()
        writer.add_scalar("loss", 1.0)
    writer.close()
    assert [step for step, _row in reading.rows(tmp_path)] == [0, 3, 4, 5, 6, 7, 8, 9, 10]


def test_rows_are_never_more_than_the_agent_gives_and_the_users_values_are_all_there(tapped, tmp_path, agent):
    """10,000 calls in a hurry: the user's scalars are complete and in order, rows only as often as the agent allows."""
    agent.every = 0.2
    writer = tapped.SummaryWriter(str(tmp_path))
    for step in range(10_000):
        agent.step()
        writer.add_scalar("loss", float(step), step)
    writer.close()
    assert reading.scalars(tmp_path, "loss") == [(step, float(step)) for step in range(10_000)]
    assert 2 <= len(reading.rows(tmp_path)) == len(agent.rows) <= 100


def test_other_threads_may_log(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("main", 0.0, 0)

    def log(name: str) -> None:
        for step in range(300):
            agent.step()
            writer.add_scalar(name, float(step), step)

    threads = [threading.Thread(target=log, args=(f"thread{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    for n in range(4):
        assert reading.scalars(tmp_path, f"thread{n}") == [(step, float(step)) for step in range(300)]
    assert not agent.failures


def test_writing_to_a_closed_writer_ends_as_it_does_without_us(tapped, agent, tmp_path):
    writer = tapped.module.EventFileWriter(str(tmp_path))
    event = tapped.module.event_pb2.Event(step=1)
    event.summary.value.add(tag="loss", simple_value=1.0)
    agent.step()
    writer.add_event(event)
    writer.close()
    agent.step()
    if tapped.name == "torch":
        with pytest.raises(OSError, match="closed"):
            writer.add_event(event)
    else:
        writer.add_event(event)
    writer.close()
    assert not agent.failures
    assert reading.scalars(tmp_path, "loss") == [(1, 1.0)]


def test_a_forked_child_is_silent(tapped, agent, tmp_path):
    """A data loader's worker inherits the writer; whatever it calls, we add nothing and fail nowhere."""
    writer = tapped.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 1.0, 1)
    before = len(agent.rows)
    child = os.fork()
    if child == 0:
        agent.step()
        publisher = next(iter(plugin._publishers.values()))
        plugin.finish(agent)
        os._exit(0 if publisher.silent and len(agent.rows) == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    assert len(reading.strings(tmp_path, "trainmeter/passport")) == 1


def test_undo_restores_every_method_by_identity(package, agent):
    cls = package.module.EventFileWriter
    before = dict(vars(cls))
    undo = plugin.install_tap(package.module, agent)
    assert dict(vars(cls)) != before
    undo()
    assert dict(vars(cls)) == before


def test_nothing_is_stored_on_the_users_writer_and_it_is_freed(tapped, agent, tmp_path):
    import gc
    import weakref

    writer = tapped.module.EventFileWriter(str(tmp_path))
    event = tapped.module.event_pb2.Event(step=1)
    event.summary.value.add(tag="loss", simple_value=1.0)
    names = set(vars(writer))
    agent.step()
    writer.add_event(event)
    assert set(vars(writer)) == names
    writer.close()
    gone = weakref.ref(writer)
    del writer
    gc.collect()
    assert gone() is None


def test_a_writer_whose_first_event_fails_keeps_the_users_error(tapped, agent, tmp_path):
    writer = tapped.SummaryWriter(str(tmp_path))
    with pytest.raises(Exception) as without_event:
        writer.add_scalar("loss", "no number", 1)
    assert not agent.failures
    assert without_event.value is not None
    writer.close()


def test_a_method_that_another_tool_wrapped_is_tapped_and_restored(package, agent, tmp_path, monkeypatch):
    """W&B's and others' wrappers call themselves as they like, and may come after ours as well."""
    cls = package.module.EventFileWriter
    passed = []

    def wrap_as_others_do(method):
        def anything(self, event):
            passed.append(event.step)
            return method(self, event)

        monkeypatch.setattr(cls, "add_event", anything)

    wrap_as_others_do(cls.__dict__["add_event"])
    undo = plugin.install_tap(package.module, agent)
    wrap_as_others_do(cls.__dict__["add_event"])
    writer = package.SummaryWriter(str(tmp_path))
    agent.step()
    writer.add_scalar("loss", 1.0, 1)
    undo()
    agent.step()
    writer.add_scalar("loss", 1.0, 2)
    writer.close()
    plugin._publishers.clear()
    assert [step for step, _row in reading.rows(tmp_path)] == [1]
    assert [step for step, _value in reading.scalars(tmp_path, "loss")] == [1, 2]
    assert passed.count(2) == 2
