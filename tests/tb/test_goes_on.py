"""A restarted or resumed trainer's series go on where its run stood, in the user's own event files and in `tb/`."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.tb import reading

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
TM = [sys.executable, "-m", "trainmeter_core", "--no-web", "--budget-steps", "20"]

# Makes ten steps, has saved four of them when it ends after six, and goes on from those four where it is run again.
PROGRAM = f"""
    import os, signal, sys, time, torch
    sys.path.insert(0, {str(ROOT / "tests" / "e2e" / "programs")!r})
    from tiny import GPT, config, tokens
    file, end, writes = sys.argv[1:]
    model = GPT(config())
    optimizer = torch.optim.AdamW(model.parameters())
    rows = tokens(4, 17)
    writer = None
    if writes == "writes":
        from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter("logs")
    start = 0
    if os.path.exists(file):
        state = torch.load(file)
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    for step in range(start, 10):
        loss = model(rows[:, :-1], rows[:, 1:])[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if writer:
            writer.add_scalar("loss", loss.item(), step)
        if step == 3:
            torch.save({{"optimizer": optimizer.state_dict(), "step": 4}}, file)
        if step == 5 and start == 0:
            if writer:
                writer.flush()
            if end == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit(3)
        time.sleep(0.1)
    if writer:
        writer.close()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM))


def once(end, writes, *options):
    return subprocess.run([*TM, *options, "train.py", "c.pt", end, writes], stderr=subprocess.DEVNULL, check=False)


def until_it_ends(end, writes):
    loop = f"until {sys.executable} train.py c.pt {end} {writes}; do :; done"
    subprocess.run([*TM, "--", "bash", "-c", loop], stderr=subprocess.DEVNULL, check=True)


def passport_of_the_one_run():
    (run,) = Path("home/runs").iterdir()
    return run, json.loads((run / "passport.json").read_text())


def assert_goes_on(logdir, passport):
    """From each row to the next the sums grow, by what a step takes; at the end they are the passport's."""
    rows = [row for _step, row in reading.rows(logdir)]
    steps = [row["trainmeter/step"] for row in rows]
    assert steps == sorted(steps)
    assert [row["trainmeter/tokens"] for row in rows] == [64 * step for step in steps]
    last = rows[-1]
    assert (last["trainmeter/step"], passport["data"]["steps"]["value"]) == (12, 12)
    assert last["trainmeter/tokens"] == passport["data"]["tokens"]["value"]
    assert last["trainmeter/samples"] == passport["data"]["samples"]["value"]
    assert last["trainmeter/flops"] == passport["compute"]["flops"]["torchtitan"]["value"]
    assert passport["time"]["lost_steps"]["value"] == 2
    assert last["trainmeter/progress_pct"] == pytest.approx(100 * (12 - 2) / 20)


def test_a_run_that_another_command_goes_on_with(tmp_path):
    once("exits", "writes", "--resume", "latest")
    assert max(row["trainmeter/step"] for _step, row in reading.rows("logs")) == 6
    once("exits", "writes", "--resume", "latest")
    _run, passport = passport_of_the_one_run()
    assert_goes_on("logs", passport)


def test_a_process_that_was_killed_and_is_started_again_under_the_same_tm():
    until_it_ends("killed", "writes")
    _run, passport = passport_of_the_one_run()
    assert_goes_on("logs", passport)


def test_the_files_of_a_run_without_a_tracker():
    until_it_ends("killed", "nothing")
    run, passport = passport_of_the_one_run()
    assert_goes_on(run / "tb", passport)


def test_children_that_a_program_makes_one_after_another_begin_anew(tmp_path):
    """They may be trials that have nothing to do with each other: none of them goes on from anything."""
    (tmp_path / "trials.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys, torch
            def trial(name, steps):
                from torch.utils.tensorboard import SummaryWriter
                torch.set_num_threads(1)
                layer = torch.nn.Embedding(8, 4)
                optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
                writer = SummaryWriter(name)
                for step in range(steps):
                    layer(torch.ones(2, 4, dtype=torch.long)).sum().backward()
                    optimizer.step()
                    writer.add_scalar("loss", 1.0, step)
                writer.close()
            if __name__ == "__main__":
                for name, steps in (("one", 3), ("two", 5)):
                    process = multiprocessing.get_context("spawn").Process(target=trial, args=(name, steps))
                    process.start()
                    process.join()
            """
        )
    )
    subprocess.run([*TM, "trials.py"], stderr=subprocess.DEVNULL, check=True)
    assert reading.rows("one")[-1][1]["trainmeter/step"] == 3
    assert reading.rows("two")[-1][1]["trainmeter/step"] == 5
