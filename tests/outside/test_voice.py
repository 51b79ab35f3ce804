"""What tm says stands on a line of its own, and a terminal that is gone costs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from trainmeter_core.outside.voice import Voice

SAYS = "from trainmeter_core.outside.voice import Voice; Voice(quiet=False).say('hello')"


def test_away_from_a_terminal_a_line_is_a_line(capfd):
    voice = Voice(quiet=False)
    voice.say("one")
    voice.tell("two")
    assert capfd.readouterr() == ("", "tm: one\ntm: two\n")


def test_quiet_leaves_what_must_be_said(capfd):
    voice = Voice(quiet=True)
    voice.tell("one")
    voice.say("two")
    assert capfd.readouterr() == ("", "tm: two\n")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs a terminal that shows its screen, as tmux does")
@pytest.mark.parametrize(
    ("before", "screen"),
    [
        ("", ["tm: hello"]),
        ("line\\n", ["line", "tm: hello"]),
        ("\\r 20%|##  |", [" 20%|##  |", "tm: hello"]),
        ("x" * 39, ["x" * 39, "tm: hello"]),
    ],
)
def test_on_a_terminal_it_begins_at_a_line_of_its_own_beside_a_progress_bar(tmp_path, before, screen):
    """No line of the program's is overwritten, and none is left empty."""
    socket = str(tmp_path / "tmux")
    program = f"import sys; sys.stderr.write('{before}'); sys.stderr.flush(); {SAYS}; print('end', flush=True); input()"
    environment = {**os.environ, "TERM": "xterm-256color"}

    def tmux(*words: str) -> str:
        return subprocess.run(["tmux", "-S", socket, *words], env=environment, capture_output=True, text=True).stdout

    tmux("-f", "/dev/null", "new-session", "-d", "-x", "40", "-y", "10", sys.executable, "-c", program)
    shown, until = "", time.monotonic() + 20
    try:
        while "end" not in shown and time.monotonic() < until:
            time.sleep(0.05)
            shown = tmux("capture-pane", "-p")
    finally:
        tmux("kill-server")
    assert [line for line in shown.splitlines() if line] == [*screen, "end"]
    assert "\n\n" not in shown.partition("end")[0]


@pytest.mark.parametrize("how", ["sys.stderr.close()", "os.close(2)", "sys.stderr = None"])
def test_a_stderr_that_is_gone_costs_nothing(how):
    """And what would be told does not go to the program's stdout."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys; {how}; {SAYS}; print('on')"], capture_output=True, text=True
    )
    assert done.stdout == "on\n"
