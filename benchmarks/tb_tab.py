"""How soon the trainmeter tab shows something: 200 runs, one of them with 1e5 points in each series.

Run: python benchmarks/tb_tab.py. Target: first paint at most 2 s after the tab is opened.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir))

from playwright.sync_api import sync_playwright

from tests.e2e.tensorboard_server import CHROMIUM, CHROMIUM_ARGS, SERVERS, TensorBoard
from trainmeter_core.series import TIME_KINDS
from trainmeter_tb.local import LocalEvents

RUNS = 200
POINTS = 100_000
LOADS_WITHIN_S = 600  # TensorBoard's Python loader takes 30 microseconds and more for a scalar
BEGIN = 1_760_000_000.0


def write(logdir: str) -> None:
    for number in range(RUNS - 1):
        events = LocalEvents(f"{logdir}/sweep/{number:03d}")
        for step in range(1, 20):
            events.write({"trainmeter/step": float(step), "trainmeter/mfu_pct": 40.0}, step, BEGIN + number + step)
        events.close(None)
    events = LocalEvents(f"{logdir}/long")
    for step in range(1, POINTS + 1):
        row = {"step": step, "tokens": 32768.0 * step, "tokens_per_s": 1e6 + step % 100, "mfu_pct": 40 + step % 7 / 10}
        row |= {"time/" + kind: 100 / len(TIME_KINDS) for kind in TIME_KINDS}
        events.write({"trainmeter/" + name: float(value) for name, value in row.items()}, step, BEGIN + 1000 + step)
    events.close(None)


def main() -> None:
    with tempfile.TemporaryDirectory() as logdir, sync_playwright() as playwright:
        write(logdir)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        for name, options in SERVERS.items():
            server = TensorBoard(logdir, *options)
            server.wait_for_runs(RUNS, within=LOADS_WITHIN_S)
            server.wait_for_runs(1, step=POINTS, within=LOADS_WITHIN_S)
            for _ in range(3):
                page = browser.new_page(viewport={"width": 1280, "height": 1000})
                page.goto(f"{server.url}/data/plugins_listing")
                started = time.perf_counter()
                page.goto(f"{server.url}/data/plugin_entry.html?name=trainmeter")
                page.locator("#headline .value").first.wait_for()
                page.locator("#overview canvas").first.wait_for()
                print(f"{name} data server: {time.perf_counter() - started:.2f} s to headline and first chart")
                page.close()
            server.close()
        browser.close()


if __name__ == "__main__":
    main()
