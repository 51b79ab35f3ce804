"""What is typed after `tm`, and what comes of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trainmeter_core.cli import main as cli
from trainmeter_core.cli.commands import COMMANDS
from trainmeter_core.runlog.write import RunWriter
from trainmeter_core.version import __version__

TM = [sys.executable, "-m", "trainmeter_core"]


def tm(*words, **how):
    env = how.pop("env", {})
    environ = {key: value for key, value in {**os.environ, **env}.items() if value is not None}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.run([*TM, *words], text=True, timeout=30, env=environ, **how)


@pytest.fixture
def show(tmp_path):
    """A script that shows its arguments and its process."""
    path = tmp_path / "show.py"
    path.write_text("import os, sys; print(sys.argv[1:], os.getpid(), os.getppid())")
    return str(path)


def test_version_and_help_are_told_without_running_anything():
    assert tm("--version").stdout == f"trainmeter {__version__}\n"
    assert tm().stdout == tm("--help").stdout


def test_the_help_fits_a_screen_and_begins_with_examples():
    lines = tm().stdout.splitlines()
    assert len(lines) <= 44
    assert max(map(len, lines)) <= 110
    assert any(line.startswith("  tm train.py") for line in lines[:8])
    assert all(any(f"  {name} " in line for line in lines) for name, (_, text) in COMMANDS.items() if text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--foo", "x.py"], "No such option"),
        (["-u", "x.py"], "tm python -u"),
        (["--budget-tokens", "20Q", "x.py"], "'20Q' is not a number"),
        (["--budget-steps", "1.5", "x.py"], "not a whole number"),
        (["--peak-tflops", "0", "x.py"], "not greater than 0"),
        (["--budget-tokens"], "requires an argument"),
        (["--quiet"], "no script or command"),
        (["--"], "no script or command"),
        (["-m"], "-m needs the name of a module"),
        (["--quiet", "passport"], "takes its options after its name"),
    ],
)
def test_a_bad_command_line_costs_one_line_and_exit_code_2(words, message):
    done = tm(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("tm: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_follows_the_script_belongs_to_the_script(show):
    words = ["--version", "--quiet", "-m", "--", "--budget-tokens", "nonsense", "--help", "--off"]
    assert tm(show, *words).stdout.startswith(str(words))


def test_what_follows_the_module_belongs_to_the_module(show):
    words = ["--version", "-m", "x", "--"]
    assert tm("--quiet", "-m", "show", *words, cwd=Path(show).parent).stdout.startswith(str(words))


def test_options_before_the_script_are_tms(show):
    done = tm("--budget-tokens", "20B", "--budget-hours=1.5", "--no-tap", "a", "--no-tap", "b", "--quiet", show, "1")
    assert done.stdout.startswith("['1']")


def test_a_subcommand_wins_over_a_program_of_its_name_and_two_dashes_undo_that(tmp_path):
    program = tmp_path / "passport"
    program.write_text("#!/bin/sh\necho the program\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert tm("--", "passport", env=env).stdout == "the program\n"
    assert tm("passport", env=env).stdout != "the program\n"


def test_a_subcommand_gets_its_words_and_sets_the_exit_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "a_command.py").write_text(
        "import click\n"
        "@click.command()\n@click.argument('run')\n@click.option('--json', is_flag=True)\n"
        "def show(run, json):\n    print(run, json)\n    return 4\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "show", ("a_command:show", "for this test"))
    with pytest.raises(SystemExit) as end:
        cli.main(["show", "latest", "--json"])
    assert end.value.code == 4
    assert capsys.readouterr().out == "latest True\n"
    with pytest.raises(SystemExit) as end:
        cli.main(["show", "--nope"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("tm: No such option")


@pytest.mark.parametrize("words", [("passport",), ("passport", "--json"), ("runs",), ("--version",), ("--help",)])
def test_a_full_disk_under_standard_output_costs_one_line_and_exit_code_2(words, tmp_path):
    RunWriter.create("train.py", ["python"], runs=tmp_path / "runs").close()
    with open("/dev/full", "w") as full:
        done = tm(*words, env={"TRAINMETER_HOME": str(tmp_path)}, stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("how", [{"env": {"TM": "0"}}, {"env": {"TM": "off"}}, {"first": ["--off"]}])
def test_off_leaves_no_process_of_tm(show, how):
    process = subprocess.Popen(
        [*TM, *how.get("first", []), show, "a"],
        stdout=subprocess.PIPE,
        env={**os.environ, **how.get("env", {})},
        text=True,
    )
    out = process.communicate(timeout=30)[0]
    assert out == f"['a'] {process.pid} {os.getpid()}\n"


def test_off_ends_like_a_shell_would_when_nothing_can_be_started(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert (tm("--off", "no-such-command").returncode, tm("--off", str(plain)).returncode) == (127, 126)


def test_off_gives_back_the_signals_python_ignores():
    show = ["grep", "^SigIgn", "/proc/self/status"]
    assert tm("--off", *show).stdout == subprocess.run(show, capture_output=True, text=True).stdout


def test_starting_a_run_loads_no_subcommand_and_no_table_printer(show):
    """What the child waits for stays small: tm's imports before it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "trainmeter_core", show], capture_output=True, text=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "trainmeter_core.cli.run" in loaded
    unwanted = {"rich", "psutil", "numpy", "torch", "jsonschema", "zipfile", "asyncio", "importlib.metadata"}
    assert not loaded & (unwanted | {entry.partition(":")[0] for entry, _ in COMMANDS.values()})


def test_ctrl_c_before_the_run_began_ends_tm_by_that_signal():
    code = (
        "import trainmeter_core.cli.main as cli\n"
        "def interrupted(words): raise KeyboardInterrupt\n"
        "cli._dispatch = interrupted\ncli.main(['x'])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == -2


def test_help_into_a_closed_pipe_is_silent():
    done = subprocess.run(["bash", "-c", f"{shlex.join(TM)} | true"], capture_output=True, text=True)
    assert done.stderr == ""
