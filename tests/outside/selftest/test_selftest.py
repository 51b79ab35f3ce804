"""`tm selftest`: silent about a program that tm does not change, and loud about each way in which one is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TM = [sys.executable, "-m", "trainmeter_core"]

# Mutations: what a broken tm would do to a program, done by the program itself where it finds itself under tm.
START = """
    import os, sys, time
    from pathlib import Path
    tm = "TRAINMETER_RUN" in os.environ
"""
UNCHANGED = """
    print("one", os.getcwd(), Path(__file__))
    print("tm: mine", "two", file=sys.stderr)
    Path("out").mkdir()
    Path("out/a").write_text("x")
    Path(f"log-{time.time_ns()}").write_text("x")
    assert Path("data").read_text() == "data"
    Path("data").write_text("new")
    Path("removed").unlink()
    os.symlink("data", "link")
    os.mkfifo("pipe")
    sys.exit(3)
"""
NOISY = """
    print("loss 0.5", time.time_ns())
    Path("log").write_text(str(time.time_ns()))
"""
CHANGED = """
    print("loss", 1 if tm else 0, time.time_ns())
    tm and print("tm: hello", file=sys.stderr)
    Path("more" if tm else "less").write_text("")
    Path("content").write_text(str(tm))
    Path("mode").write_text("")
    os.chmod("mode", 0o600 if tm else 0o644)
    tm or Path("removed").unlink()
    Path(f"clock{time.time_ns()}").write_text(str(tm))
    os.symlink("data" if tm else "program.py", "link")
    sys.exit(3 * tm)
"""


def selftest(folder: Path, body: str, *options: str, start: str = START, **env: str):
    (folder / "program.py").write_text(textwrap.dedent(start) + textwrap.dedent(body))
    (folder / "data").write_text("data")
    (folder / "removed").write_text("")
    result = folder.parent / f"{folder.name}.json"
    done = subprocess.run(
        [*TM, "selftest", "--json", str(result), *options, "program.py"],
        cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "TRAINMETER_HOME": str(folder.parent / "home"), "OMP_NUM_THREADS": "1", **env},
    )  # fmt: skip
    told = json.loads(result.read_text()) if result.exists() else None
    return done, told


def differing(told) -> list[str]:
    return [row["what"] for row in told["rows"] if row["state"] == "differs"]


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.parametrize(("body", "end"), [(UNCHANGED, "exit code 3"), ("os.kill(os.getpid(), 9)", "signal 9")])
def test_what_tm_does_not_change_is_the_same(folder, body, end):
    """Each run begins anew, in a copy: this program would fail on what another run left."""
    done, told = selftest(folder, body)
    assert (done.returncode, differing(told), told["counts"]["noise"]) == (0, [], 0), done.stdout
    assert {run["end"] for run in told["runs"]} == {end}
    assert sorted(path.name for path in folder.iterdir()) == ["data", "program.py", "removed"]
    assert (folder / "data").read_text() == "data", "the directory itself is left as it was"
    assert not (folder.parent / "home").exists(), "and no run is left in the user's list"


def test_what_differs_between_bare_runs_is_named_as_noise(folder):
    done, told = selftest(folder, NOISY)
    assert done.returncode == 0, done.stdout
    assert [row["what"] for row in told["rows"] if row["state"] == "noise"] == ["stdout", "files written"]
    assert "noise" in done.stdout


def test_each_way_of_changing_a_program_is_found(folder):
    done, told = selftest(folder, CHANGED)
    assert done.returncode == 1, done.stdout
    found = [name if "clock" not in name else "file clock" for name in differing(told)]
    files = ["content", "link", "mode", "removed", "clock", "less", "more"]
    assert sorted(found) == sorted(["how it ended", "stdout", "stderr", *(f"file {name}" for name in files)])
    assert len(told["runs"]) == 5, "further bare runs were made to tell it from chance"


def test_in_place_each_run_sees_what_the_one_before_left(folder):
    done, told = selftest(folder, 'Path("count").open("a").write("x")', "--in-place")
    assert done.returncode == 0
    assert "in place" in done.stdout
    assert told["in_place"]
    assert (folder / "count").read_text() == "xxx"


def test_a_directory_that_is_not_small_is_not_copied(tmp_path, monkeypatch):
    from trainmeter_core.outside.selftest import runs

    (tmp_path / "large").write_bytes(b"x" * 2000)
    assert runs.is_small(tmp_path)
    monkeypatch.setattr(runs, "SMALL_BYTES", 1000)
    assert not runs.is_small(tmp_path)
    (tmp_path / "pyvenv.cfg").write_text("")
    outer = tmp_path.parent / "with an environment"
    outer.mkdir()
    tmp_path.rename(outer / "env")
    assert runs.is_small(outer), "an environment is linked, not copied"


@pytest.mark.parametrize("words", [[], ["--no-such-option"], ["--keep", ".", "x.py"]])
def test_a_bad_command_line_is_one_line_and_exit_code_2(words, tmp_path):
    done = subprocess.run([*TM, "selftest", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_command_that_cannot_be_started_is_no_result(tmp_path):
    done = subprocess.run([*TM, "selftest", "--", "no-such-command"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such file or directory: 'no-such-command'" in done.stderr


TRAINING = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    from tensorboardX import SummaryWriter
    writer = SummaryWriter("runs")
    for step in range(5):
        loss = model(torch.ones(2, 4)).sum()
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        writer.add_scalar("loss", loss.item(), step)
        writer.add_histogram("weights", model.weight.detach().numpy(), step)
        print(loss.item().hex())
    writer.close()
"""
SAVED = """
    torch.save(model.state_dict(), "model.pt")
"""
BY_A_BIT = """
    if tm:
        model.weight.data[0, 0] = torch.nextafter(model.weight.data[0, 0], torch.tensor(9.0))
"""


def test_a_training_is_the_same_in_its_weights_and_in_its_event_file(folder):
    _, told = selftest(folder, TRAINING + SAVED)
    assert [(row["what"], row["state"]) for row in told["rows"]] == [
        ("how it ended", "same"),
        ("stdout", "same"),
        ("stderr", "same"),
        ("TensorBoard runs", "same"),
        ("files written", "same"),
    ]


BROKEN_ADAPTER = """
from trainmeter_core.hookspecs import hookimpl

@hookimpl
def tracker_modules():
    return ["tensorboardX.writer"]

@hookimpl
def install_tap(module, agent):
    original = module.SummaryWriter.close
    def close(self):
        self.add_scalar("one more", 1.0, 0)
        return original(self)
    module.SummaryWriter.close = close
    def undo():
        module.SummaryWriter.close = original
    return undo
"""


def test_a_bit_of_a_weight_and_a_scalar_of_a_broken_adapter_are_found(folder):
    """A real adapter of the entry-point group, broken: what it writes has no name of trainmeter's."""
    site = folder.parent / "site"
    about = site / "broken-1.dist-info"
    about.mkdir(parents=True)
    (site / "broken_adapter.py").write_text(BROKEN_ADAPTER)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[trainmeter]\nbroken = broken_adapter\n")
    done, told = selftest(folder, TRAINING + BY_A_BIT + SAVED, PYTHONPATH=str(site))
    assert done.returncode == 1
    assert differing(told) == ["TensorBoard runs", "file model.pt"]
    details = {row["what"]: row["detail"] for row in told["rows"]}
    assert details["TensorBoard runs"].startswith("one_more: nothing bare, [(0, ")
    assert details["file model.pt"].startswith(".weight: ")
