"""Options that adapters add to `tm`: real adapters, found by entry point in a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# `tm` in an environment where a directory more is searched; what PYTHONPATH names is the user's program's alone.
TM = "import sys; sys.path.append(sys.argv.pop(1)); from trainmeter_core.cli.entry import main; main()"

ADAPTER = """
from trainmeter_core.hookspecs import Option, hookimpl

@hookimpl
def tracker_modules():
    return ["a.tracker"]

@hookimpl
def options():
    return [
        Option("--mine-loud", "MINE_LOUD", "a flag"),
        Option("--mine-place", "MINE_PLACE", "a value", "PLACE"),
        Option("--quiet", "MINE_QUIET", "tm has one of that name"),
    ]
"""
BROKEN = ADAPTER.replace("return [\n        Option", "return 1 / 0, [\n        Option")
SHOW = "import os, sys; print(os.environ.get('MINE_LOUD'), os.environ.get('MINE_PLACE'), sys.argv[1:])"


@pytest.fixture
def tm(tmp_path):
    """Run `tm` with adapters installed beside the real ones."""

    def run(*words, **adapters):
        for name, code in adapters.items():
            (tmp_path / f"{name}_adapter.py").write_text(code)
            folder = tmp_path / f"{name}-1.dist-info"
            folder.mkdir(exist_ok=True)
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
            (folder / "entry_points.txt").write_text(f"[trainmeter]\n{name} = {name}_adapter\n")
        (tmp_path / "show.py").write_text(SHOW)
        env = {**os.environ, "TRAINMETER_HOME": str(tmp_path / "home")}
        start = [sys.executable, "-c", TM, str(tmp_path), "--quiet"]
        return subprocess.run([*start, *words], capture_output=True, text=True, timeout=120, env=env, cwd=tmp_path)

    return run


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["show.py"], "None None []"),
        (["--mine-loud", "show.py", "--mine-loud"], "1 None ['--mine-loud']"),
        (["--mine-place", "a b", "--mine-loud", "show.py"], "1 a b []"),
        (["--mine-place=show.py", "show.py"], "None show.py []"),
    ],
)
def test_what_an_adapters_option_says_reaches_the_trainer_as_a_variable(tm, words, shown):
    ended = tm(*words, mine=ADAPTER)
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == (shown, "", 0)


def test_an_option_of_tms_own_stays_its_own(tm):
    assert "MINE_QUIET" not in tm("--quiet", "--mine-loud", "python", "-c", "import os; print(os.environ)").stdout


def test_the_help_has_them(tm):
    told = tm("--help", mine=ADAPTER).stdout
    assert "  --mine-loud           a flag" in told
    assert "  --mine-place PLACE    a value" in told


def test_an_adapter_whose_options_fail_costs_only_its_own(tm):
    ended = tm("--mine-loud", "show.py", mine=ADAPTER, broken=BROKEN)
    assert ended.stdout.strip() == "1 None []"
    assert tm("--mine-loud", "show.py", mine=BROKEN).stderr.startswith("tm: No such option")


def test_a_line_of_tms_own_options_asks_no_adapter(tm):
    """The start of a run does not grow: an adapter is loaded where it always was, once the run is laid out."""
    asks = "import sys; from trainmeter_core.cli.adapter_options import has_foreign; print(has_foreign(sys.argv[1:]))"
    for words, told in ((["--quiet", "--run-name=x", "--no-web", "-h"], "False"), (["--quiet", "--mine"], "True")):
        shown = subprocess.run([sys.executable, "-c", asks, *words], capture_output=True, text=True, timeout=120)
        assert shown.stdout.strip() == told


def test_no_tracker_is_imported_to_learn_the_options():
    code = (
        "import sys; from trainmeter_core.cli.adapter_options import adapter_options; "
        "print([option.name for option in adapter_options()], {'mlflow', 'wandb', 'tensorboard'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert shown.stdout.strip() == "['--mlflow-system-metrics'] set()"
