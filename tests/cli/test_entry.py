"""What lies on the path for the user's program comes after tm's own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trainmeter_core.cli.entry import own_path


def test_the_users_directories_come_last_and_ours_stays(tmp_path):
    ours, theirs, other = (str(tmp_path / name) for name in ("ours", "theirs", "other"))
    path = [theirs, ours, "", other, theirs + "/"]
    assert own_path(path, [theirs, ours], home=ours) == [ours, "", other, theirs, theirs + "/"]
    assert own_path(path, [], home=ours) == path


@pytest.mark.parametrize("how", ["PYTHONPATH", "working directory"])
def test_a_module_of_the_users_with_a_name_of_ours_shadows_nothing_in_tm(tmp_path, how):
    """A project may have a click.py or a pluggy of its own; its program still sees these."""
    for name in ("click", "pluggy", "psutil", "rich"):
        (tmp_path / f"{name}.py").write_text("theirs = True\n")
    (tmp_path / "main.py").write_text("import click, psutil, rich\nprint(click.theirs, psutil.theirs, rich.theirs)\n")
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path / "home")}
    if how == "PYTHONPATH":
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "trainmeter_core", "--quiet", "main.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True\n", "")
