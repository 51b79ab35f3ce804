"""A run without a tracker is watched while it grows, in the viewer that tm itself started; it ends with the run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.tensorboard_server import CHROMIUM, CHROMIUM_ARGS
from tests.known import known

pytest.importorskip("tensorboard")

TM = [sys.executable, "-m", "trainmeter_core"]
WITHIN_S = 150
PROGRAMS = Path(__file__).with_name("programs")
PROGRAM = """
import os, sys, time
sys.path.insert(0, {programs!r})
import torch
from tiny import GPT, config, tokens
model = GPT(config())
optimizer = torch.optim.AdamW(model.parameters())
while not os.path.exists({stop!r}):
    batch = tokens(2, 17)
    model(batch[:, :-1], batch[:, 1:])[1].backward()
    optimizer.step()
    optimizer.zero_grad()
    print("stepped", file=sys.stderr)
    time.sleep(0.2)
"""


class Watched:
    """A run under `tm` that goes on until it is told to stop."""

    def __init__(self, launch, folder, *options) -> None:
        self.stop = folder / "stop"
        script = folder / "train.py"
        script.write_text(PROGRAM.format(programs=str(PROGRAMS), stop=str(self.stop)))
        self.process = subprocess.Popen(
            [*TM, *options, str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=launch.environment(folder),
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(iter(known(self.process.stderr).readline, "")))
        self._reader.start()

    def address(self) -> str:
        """The viewer's, from the one line that tells it."""
        return until(lambda: known(re.search(r"watch this run: (http://\S+:\d+)/|$", "".join(self.lines)))[1])

    def has_ended(self) -> str:
        self.process.wait(120)
        self._reader.join(30)
        return "".join(self.lines)

    def end(self) -> str:
        self.stop.touch()
        return self.has_ended()


def until(wanted):
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            found = wanted()
            if found:
                return found
        time.sleep(0.2)
    raise AssertionError("it did not come to that in time")


def steps_shown(address):
    with urllib.request.urlopen(f"{address}/data/plugin/scalars/scalars?run=.&tag=trainmeter/step", timeout=60) as told:
        return [value for _time, _step, value in json.load(told)]


def is_closed(address):
    try:
        urllib.request.urlopen(address, timeout=5)
    except OSError:
        return True
    return False


def test_a_live_run_grows_in_the_viewer_which_ends_with_it(launch, tmp_path):
    watched = Watched(launch, tmp_path, "--web", "--port", "7700")
    try:
        address = watched.address()
        first = until(lambda: steps_shown(address))
        later = until(lambda: (now := steps_shown(address)) and now[-1] > first[-1] and now)
    finally:
        said = watched.end()
    assert later[: len(first)] == first
    assert watched.process.returncode == 0
    assert said.count("http://") == 1
    assert is_closed(address)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_live_run_is_watched_in_the_tab_while_it_grows(launch, tmp_path):
    """The page is opened once and not reloaded."""
    sync_api = pytest.importorskip("playwright.sync_api")
    watched = Watched(launch, tmp_path, "--web", "--port", "7750")
    try:
        address = watched.address()
        until(lambda: steps_shown(address))
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
            page = browser.new_page()
            page.goto(f"{address}/#trainmeter")
            frame = page.frame_locator("iframe")
            tokens = frame.locator('.card [data-series="tokens"]').first
            tokens.wait_for(timeout=WITHIN_S * 1000)
            seen = [float(tokens.get_attribute("data-value"))]
            for _ in range(2):
                until(lambda: float(tokens.get_attribute("data-value")) > seen[-1])
                seen.append(float(tokens.get_attribute("data-value")))
            browser.close()
    finally:
        watched.end()
    assert seen == sorted(set(seen))
    assert all(count % (2 * 16) == 0 for count in seen), "whole batches of 2 sequences of 16 tokens"


def test_the_viewer_dies_with_a_tm_that_is_killed(launch, tmp_path):
    watched = Watched(launch, tmp_path, "--web", "--port", "7800")
    try:
        address = watched.address()
        watched.process.send_signal(signal.SIGKILL)
        until(lambda: is_closed(address))
    finally:
        watched.end()


def test_away_from_a_terminal_none_is_started(launch, tmp_path):
    """A batch job stays as quiet as it was."""
    watched = Watched(launch, tmp_path)
    try:
        until(lambda: any("look at this run: tensorboard" in line for line in watched.lines))
    finally:
        said = watched.end()
    assert "http://" not in said


def test_one_that_is_to_be_kept_outlives_the_run_until_it_is_killed(launch, tmp_path):
    """Also after a run that ended before anybody could have looked."""
    watched = Watched(launch, tmp_path, "--keep-web", "--port", "7900")
    until(lambda: watched.lines.count("stepped\n") > 2)
    said = watched.end()
    found = re.search(r"the viewer goes on: (http://\S+:\d+)/\S* \(kill (\d+) ends it\)", said)
    assert found, said
    try:
        assert until(lambda: steps_shown(found[1]))
    finally:
        os.kill(int(found[2]), signal.SIGTERM)
    until(lambda: is_closed(found[1]))
