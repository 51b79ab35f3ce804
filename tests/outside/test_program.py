"""A run is named after the user's program and belongs to its repository, whatever starts it."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.program import program_of, script_of


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()


@pytest.mark.parametrize(
    ("command", "name", "directory"),
    [
        ("python src/train.py --lr 1", "src/train.py", "src"),
        ("/usr/bin/python3.11 -u src/train.py other.py", "src/train.py", "src"),
        ("torchrun --nproc_per_node=8 src/train.py -m x", "src/train.py", "src"),
        ("python -m torch.distributed.run --nproc_per_node 2 src/train.py", "src/train.py", "src"),
        ("accelerate launch --module pkg.train --epochs 2", "pkg.train", "."),
        ("srun python -m pkg.train src/train.py", "pkg.train", "."),
        ("srun -m block ./train", "srun", "."),
        ("python missing.py", "python", "."),
        ("bash run.sh", "bash", "."),
    ],
)
def test_in_a_command_it_is_the_script_or_module_that_runs_in_the_end(command, name, directory):
    words = command.split()
    assert program_of("command", words[0], words) == (name, directory)


def test_a_script_or_module_given_to_tm_is_the_program():
    assert program_of("script", "src/train.py", ["python", "src/train.py"]) == ("src/train.py", "src")
    assert program_of("module", "pkg.train", ["python", "-m", "pkg.train"]) == ("pkg.train", ".")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python a.py --lr 1", "a.py"),
        ("python -u -m pkg.train x", "pkg.train"),
        ("python -W ignore -X dev a.py", "a.py"),
        ("python -Wignore a.py -m x", "a.py"),
        ("python -c print(1) a.py", "python"),
        ("python -m", "-m"),
        ("train", "train"),
        ("", ""),
    ],
)
def test_the_script_of_a_running_python(command, script):
    assert script_of(command.split()) == script
