"""However a program ends, or begins: its exit code and output are its own, and the run directory tells the truth."""

from __future__ import annotations

import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAMS, PYTHON, TM, user_lines
from trainmeter_core.passport.schema import problems

TORCHRUN = (
    PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
)  # fmt: skip


def test_a_crash_keeps_its_traceback_and_code(launch):
    pair = launch.pair("crash")
    assert pair.tm.code == pair.bare.code == 1
    assert pair.tm.stdout == pair.bare.stdout
    assert user_lines(pair.tm.stderr) == user_lines(pair.bare.stderr)
    assert "IndexError" in pair.bare.stderr
    assert problems(pair.tm.passport) == []
    assert pair.tm.value("ends.how") == "crashed"
    assert pair.tm.value("ends.status") == 1
    assert pair.tm.value("data.steps") == 5
    assert pair.tm.value("data.tokens") == 5 * 4 * 16


def test_a_killed_program_leaves_every_step_it_made(launch):
    pair = launch.pair("killed")
    assert pair.tm.code == pair.bare.code == -signal.SIGKILL
    assert pair.tm.stdout == pair.bare.stdout
    assert problems(pair.tm.passport) == []
    assert pair.tm.passport["ends"] == {
        "how": "killed",
        "status": {"value": signal.SIGKILL, "unit": "signal", "source": "measured"},
    }
    assert pair.tm.value("data.steps") == 5
    assert pair.tm.value("data.samples") == 20


def test_a_program_that_python_isolates_runs_unmeasured_and_tm_says_why(launch):
    run = launch.tm("--", PYTHON, "-I", "-c", "import sys; print(sys.flags.isolated, 'sitecustomize' in sys.modules)")
    assert (run.code, run.stdout.split()[0]) == (0, b"1")
    assert not run.value("data.steps")
    assert problems(run.passport) == []
    assert "-I keeps the agent out" in run.stderr


def test_a_command_that_sets_pythonpath_itself_is_told_how_to(launch):
    run = launch.tm("--", "env", "PYTHONPATH=/nowhere", PYTHON, "-c", "print('as ever')")
    assert (run.code, run.stdout) == (0, b"as ever\n")
    assert "set it before tm: PYTHONPATH=" in run.stderr


def test_training_under_isolation_is_unharmed(launch):
    script = f"import sys; sys.path.insert(0, {str(PROGRAMS)!r}); import crash"
    bare, run = launch.bare(PYTHON, "-I", "-c", script), launch.tm("--", PYTHON, "-I", "-c", script)
    assert run.code == bare.code == 1
    assert run.stdout == bare.stdout != b""
    assert run.value("ends.how") == "crashed"


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """The interpreter of a venv that has torch and no trainmeter, nor anything else of ours."""
    folder = tmp_path_factory.mktemp("other")
    venv.create(folder, with_pip=False, symlinks=True)
    import torch

    [site] = folder.glob("lib/python*/site-packages")
    links = tmp_path_factory.mktemp("libraries")
    for entry in Path(torch.__file__).parents[1].iterdir():
        if not entry.name.lower().startswith(("trainmeter", "pluggy", "_editable")) and entry.suffix != ".pth":
            (links / entry.name).symlink_to(entry)
    (site / "torch.pth").write_text(f"{links}\n")
    python = str(folder / "bin" / "python")
    for absent in ("trainmeter_core", "pluggy"):
        assert subprocess.run([python, "-c", f"import {absent}"], capture_output=True).returncode == 1
    return python


def test_a_trainer_without_trainmeter_is_measured_and_finds_nothing_of_ours(launch, other_python, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(PROGRAMS)!r}); sys.argv = ['x', 'torch.utils.tensorboard', {str(tmp_path)!r}]\n"
        "import writer_loop\n"
        "for name in ('pluggy', 'click', 'psutil', 'trainmeter_tb', 'trainmeter_core'):\n"
        "    print(name, sys.modules.get(name) is not None)\n"
        "try:\n    import pluggy\nexcept ImportError as error:\n    print(error)\n"
    )
    run = launch.tm(str(script), python=other_python)
    assert run.code == 0, run.stderr
    lines = run.stdout.decode().splitlines()
    assert run.value("observation.failures") == []
    assert lines[-6:-2] == ["pluggy False", "click False", "psutil False", "trainmeter_tb True"]
    assert lines[-1] == "No module named 'pluggy'"
    assert run.value("data.steps") == 30
    assert run.value("data.tokens") == 30 * 4 * 16
    assert run.value("observation.failures") == []
    assert [tracker["tracker"] for tracker in run.passport["identity"]["trackers"]] == ["tensorboard"]


@pytest.mark.parametrize(("options", "env"), [([], {"TM": "0"}), (["--off"], {})], ids=["TM=0", "--off"])
def test_switched_off_it_is_the_bare_command(launch, options, env):
    place = launch.place()
    code = "import os, sys; print(sorted(k for k in os.environ if k.startswith('TRAINMETER_')), os.environ.get('PYTHONPATH'))"
    ended = launch.finish(launch.start([*TM, *options, "--", PYTHON, "-c", code], place, env), place)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout == b"['TRAINMETER_HOME'] None\n"
    assert not (place / "home").exists()


@pytest.mark.parametrize("batches", ["equal", "unequal"])
def test_data_parallel_ranks_add_up_to_global_tokens(launch, batches):
    pair = launch.pair("ddp", batches, launcher=TORCHRUN)
    assert pair.bare.code == pair.tm.code == 0, pair.tm.stderr
    assert pair.tm.stdout == pair.bare.stdout
    rows = 4 + (7 if batches == "unequal" else 4)
    assert pair.tm.value("data.steps") == 12
    assert pair.tm.value("data.samples") == 12 * rows
    assert pair.tm.value("data.tokens") == 12 * rows * 16
    assert pair.tm.value("hardware.world_size") == 2
    assert problems(pair.tm.passport) == []
    assert pair.tm.value("observation.failures") == []
    shares = [share["value"] for share in pair.tm.value("time.shares").values() if share]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert [share["unit"] for share in pair.tm.value("time.shares").values() if share] == ["percent"] * len(shares)


def test_the_rank_that_the_others_wait_for_is_named(launch):
    pair = launch.pair("ddp", "slow", launcher=TORCHRUN)
    [said] = [verdict["sentence"] for verdict in pair.tm.passport["verdicts"] if verdict["code"] == "straggler"]
    assert said.startswith("rank 1 spends ")
    assert "between its steps" in said


def test_a_module_and_a_script_on_stdin_run_as_python_runs_them(launch):
    run = launch.tm("-m", "this")
    assert run.stdout == subprocess.run([sys.executable, "-m", "this"], capture_output=True).stdout
    assert run.code == 0
