"""The built frontend in the repository is what its source builds."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from trainmeter_tb.tab.plugin import FILES, STATIC

# The source stands in the repository alone; what is installed has the build.
SOURCE = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "src", "trainmeter_tb", "tab", "frontend")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A build from a clean copy, with the packages that the lock file names."""
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    copy = tmp_path_factory.mktemp("frontend")
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("node_modules"), dirs_exist_ok=True)
    install = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if install.returncode:
        pytest.skip("the packages of the lock file cannot be fetched: " + install.stderr[-300:])
    subprocess.run(["npm", "run", "--silent", "check"], cwd=copy, check=True, timeout=120)
    subprocess.run(["node", "build.mjs", str(copy / "out")], cwd=copy, check=True, timeout=120)
    return copy / "out"


def test_a_rebuild_gives_the_same_bytes(built):
    names = sorted(os.listdir(STATIC))
    assert names == sorted([*FILES, "LICENSE.uPlot"])
    assert sorted(os.listdir(built)) == names
    for name in names:
        with open(os.path.join(STATIC, name), "rb") as committed:
            assert (built / name).read_bytes() == committed.read(), name


def test_the_lock_file_names_no_place_to_fetch_from():
    with open(os.path.join(SOURCE, "package-lock.json")) as file:
        assert "resolved" not in file.read()


def test_nothing_in_the_source_writes_markup():
    """Text goes into the page as text; innerHTML and its like would let a run's name be markup."""
    for name in os.listdir(os.path.join(SOURCE, "src")):
        with open(os.path.join(SOURCE, "src", name)) as file:
            source = file.read()
        assert not [
            word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write") if word in source
        ], name
