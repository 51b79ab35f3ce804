"""The table of commands, and the words that an adapter's command takes from the user's programs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from trainmeter_core.cli.commands import COMMANDS, adapter_command
from trainmeter_core.cli.enable import command as enable
from trainmeter_core.cli.enable import disable_command as disable


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, (place, _) in COMMANDS.items()])
def test_a_command_is_where_the_table_says_and_its_help_fits_80_columns(name, place):
    module, _, attribute = place.partition(":")
    told = CliRunner().invoke(getattr(__import__(module, fromlist=[attribute]), attribute), ["--help"])
    assert told.exit_code == 0
    prose = [line for line in told.stdout.splitlines() if not line.startswith("  tm ")]  # examples are one line each
    assert [line for line in prose if len(line) > 80] == []
    assert "\\b" not in told.stdout


def test_an_adapter_gives_commands_under_its_name():
    place = adapter_command(["wandb", "view"])
    assert place is not None
    assert place.startswith("trainmeter_wandb.")


@pytest.mark.parametrize(
    "words", [["wandb"], ["wandb", "login"], ["./wandb", "view"], ["wandb.py", "view"], ["a", "b"]]
)
def test_other_words_are_the_users_program(words):
    assert adapter_command(words) is None


@pytest.mark.parametrize("command", [enable, disable])
def test_a_python_that_does_not_say_where_its_packages_lie_costs_one_line(command, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    done = CliRunner().invoke(command, ["--python", str(fake)])
    assert done.exit_code == 1
    assert done.stderr == f"Error: {fake} did not say where its packages lie\n"


def test_an_environment_that_cannot_be_written_costs_one_line(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho /nowhere/site-packages\n")
    fake.chmod(0o755)
    done = CliRunner().invoke(enable, ["--python", str(fake)])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "No such file or directory" in done.stderr
    assert CliRunner().invoke(disable, ["--python", str(fake)]).stdout == "there is nothing to remove\n"
