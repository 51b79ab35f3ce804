"""The Tab key after `tm`: the scripts load in their shells, and what they ask for is offered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

TM = [sys.executable, "-m", "trainmeter_core"]


def offered(line: str, at: int) -> list[str]:
    """The words that bash is given for word `at` of a command line."""
    env = {**os.environ, "_TM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(at)}
    done = subprocess.run(TM, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_and_files_are_offered_for_the_first_word():
    assert offered("tm pa", 1) == ["plain,passport", "file,pa"]


def test_own_options_are_offered_before_the_script():
    assert "plain,--budget-tokens" in offered("tm --budget", 1)


def test_options_of_a_command_are_offered_after_its_name():
    assert "plain,--explain" in offered("tm flops --ex", 2)


def test_files_are_offered_after_the_script():
    assert offered("tm train.py da", 2) == ["file,da"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_tm(shell):
    done = subprocess.run([*TM, "completion", shell], capture_output=True, text=True)
    assert done.returncode == 0
    assert f"_TM_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.stdout, text=True, capture_output=True).stderr == ""


def test_another_shell_is_refused_in_one_line():
    done = subprocess.run([*TM, "completion", "tcsh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
