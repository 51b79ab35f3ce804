"""Make the pictures in docs/img: two runs of the example under tm, in a real TensorBoard and a real Chromium.

Needs the test environment and a Chromium, and a few minutes; `--runs DIR` shows runs that are there already.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGES = ROOT / "docs" / "img"
MOST_BYTES = 250_000
COLOURS = 256
STEPS = 150
RUNS = {
    "batch-16": ["--batch-size", "16", "--eval-every", "50"],
    "batch-4": ["--batch-size", "4", "--eval-every", "15"],
}
TAB = {"width": 1280, "height": 1600}
TIME_SERIES = {"width": 1280, "height": 900}


def train(logdir: Path) -> None:
    """Train the example once for each run, under tm; the peak of a CPU is a stand-in, as in `make demo`."""
    for name, options in RUNS.items():
        words = [sys.executable, "-m", "trainmeter_core", "--peak-tflops", "0.2", "--budget-steps", str(STEPS)]
        words += [str(ROOT / "examples" / "train_gpt.py"), "--steps", str(STEPS), "--out", str(logdir / name), *options]
        env = {**os.environ, "TRAINMETER_HOME": str(logdir.parent / "home")}
        subprocess.run(words, check=True, env=env, cwd=logdir.parent)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A Chromium, by Playwright."""
    from playwright.sync_api import sync_playwright

    from tests.e2e.tensorboard_server import CHROMIUM, CHROMIUM_ARGS

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


def shoot_tab(chromium: Any, url: str, *, dark: bool) -> bytes:
    """The tab with both runs, compared; down to the ladder, which a CPU has no counters for."""
    page = chromium.new_page(viewport=TAB)
    page.goto(f"{url}/?darkMode={str(dark).lower()}#trainmeter")
    frame = page.frame_locator("iframe")
    frame.locator("#headline").wait_for()
    frame.locator("#differences").wait_for()
    page.wait_for_timeout(3000)
    below = frame.locator("#ladder").bounding_box()["y"]
    taken: bytes = page.screenshot(clip={"x": 0, "y": 0, "width": TAB["width"], "height": below})
    page.close()
    return taken


def shoot_time_series(chromium: Any, url: str) -> bytes:
    """The user's loss and our group, on TensorBoard's own page."""
    page = chromium.new_page(viewport=TIME_SERIES)
    page.goto(f"{url}/?darkMode=false&tagFilter=loss|mfu_pct|tokens_per_s|time%2Fstep#timeseries")
    page.locator("scalar-card svg path").first.wait_for()
    page.locator("button.settings-button").click()
    page.wait_for_timeout(5000)
    taken: bytes = page.screenshot()
    page.close()
    return taken


def save(picture: bytes, path: Path) -> None:
    """Write a PNG with a palette; raises ValueError when it is too large for a repository."""
    import io

    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    colours.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, more than {MOST_BYTES:,}")


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, metavar="DIR", help="a log directory with runs written under tm")
    given = parser.parse_args().runs
    from tests.e2e.tensorboard_server import TensorBoard

    folder = Path(tempfile.mkdtemp(prefix="trainmeter-pictures-"))
    logdir = given or folder / "logs"
    if given is None:
        train(logdir)
    server = TensorBoard(str(logdir))
    try:
        server.wait_for_runs(len(RUNS))
        with browser() as chromium:
            for name, dark in (("light", False), ("dark", True)):
                save(shoot_tab(chromium, server.url, dark=dark), IMAGES / f"tensorboard-tab-{name}.png")
            save(shoot_time_series(chromium, server.url), IMAGES / "tensorboard-timeseries.png")
    finally:
        server.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
