"""The client's own terminal viewer shows our series of an offline run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.wandb.conftest import client_environment, run_program

BODY = """
run = wandb.init(project="p")
for step in range(20):
    agent.step()
    run.log({"loss": 1 / (step + 1)})
"""


@pytest.mark.skipif(shutil.which("tmux") is None, reason="the viewer needs a terminal, which tmux gives")
def test_wandb_leet_shows_the_mfu_over_the_optimizer_step(tmp_path):
    assert run_program(tmp_path, BODY, env={}).code == 0
    (directory,) = (tmp_path / "wandb").glob("offline-run-*")
    socket = f"trainmeter-leet-{os.getpid()}"

    def tmux(*words: str) -> str:
        command = ["tmux", "-L", socket, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30).stdout

    environment = {**client_environment(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    viewer = f"{sys.executable} -m wandb leet {directory}"
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "220", "-y", "70", viewer)
    screen, end = "", time.monotonic() + 60
    try:
        tmux("send-keys", "")
        while "trainmeter/mfu_pct" not in screen and time.monotonic() < end:
            time.sleep(0.5)
            screen = tmux("capture-pane", "-p")
            if "trainmeter/" in screen and "mfu_pct" not in screen:
                tmux("send-keys", "PageDown")
    finally:
        tmux("kill-server")
    assert "trainmeter/mfu_pct" in screen, screen
