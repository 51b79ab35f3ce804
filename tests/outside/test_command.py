"""What runs, and in which Python."""

from __future__ import annotations

import os
import sys
import zipfile

import pytest

from trainmeter_core.outside import command
from trainmeter_core.outside.command import choose_python, command_for, is_python_target

PY = "/some/python"


@pytest.fixture
def bin_python(tmp_path):
    """Make an environment with a Python in it; its folder."""

    def make(name, *programs):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        for program in programs:
            (folder / program).write_text("#!/bin/sh\n")
            (folder / program).chmod(0o755)
        return folder

    return make


@pytest.fixture
def no_environment(monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setattr(command, "_torch_beside_us", lambda: False)


def test_scripts_and_modules_run_in_python_and_the_rest_as_it_is():
    assert command_for("a/t.py", ["--x"], module=False, python=PY) == [PY, "a/t.py", "--x"]
    assert command_for("pkg.t", ["--x"], module=True, python=PY) == [PY, "-m", "pkg.t", "--x"]
    assert command_for("torchrun", ["t.py"], module=False, python=PY) == ["torchrun", "t.py"]
    assert command_for("-", [], module=False, python=PY) == [PY, "-"]


def test_folders_and_archives_with_a_main_run_in_python(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "app" / "__main__.py").touch()
    for name, member in (("a.pyz", "__main__.py"), ("b.zip", "data.txt")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, "")
    (tmp_path / "broken.zip").write_text("no archive")
    answers = {
        name: is_python_target(str(tmp_path / name))
        for name in ("app", "empty", "a.pyz", "b.zip", "broken.zip", "no.zip")
    }
    assert answers == {"app": True, "empty": False, "a.pyz": True, "b.zip": False, "broken.zip": False, "no.zip": False}


def test_tms_own_python_when_torch_is_beside_it(monkeypatch, bin_python):
    monkeypatch.setattr(command, "_torch_beside_us", lambda: True)
    monkeypatch.setenv("VIRTUAL_ENV", str(bin_python("other", "python").parent))
    assert choose_python() == sys.executable


def test_tms_own_python_when_its_environment_is_the_active_one(monkeypatch, no_environment):
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert choose_python() == sys.executable


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_else_the_active_environments_python(monkeypatch, no_environment, bin_python, variable):
    folder = bin_python("active", "python")
    monkeypatch.setenv(variable, str(folder.parent))
    assert choose_python() == str(folder / "python")


def test_else_the_python_on_the_path(monkeypatch, no_environment, bin_python):
    both = bin_python("both", "python", "python3")
    only = bin_python("only", "python")
    monkeypatch.setenv("PATH", f"{only}{os.pathsep}{both}")
    assert choose_python() == str(both / "python3")
    monkeypatch.setenv("PATH", str(only))
    assert choose_python() == str(only / "python")


def test_else_tms_own(monkeypatch, no_environment, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_python() == sys.executable


def test_a_folder_named_torch_where_the_user_stands_is_not_torch(monkeypatch, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path)])
    assert not command._torch_beside_us()
    monkeypatch.chdir("/")
    assert command._torch_beside_us()
