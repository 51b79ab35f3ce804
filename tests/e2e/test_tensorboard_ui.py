"""What a user sees: TensorBoard's own page, in a real browser, shows the trainmeter charts with the exact numbers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.known import known
from trainmeter_core.series import TIME_KINDS

pytestmark = pytest.mark.browser

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The project's own example, shortened: the windows of its GPT are 128 characters long.
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_gpt.py"
STEPS, BATCH, LENGTH = 50, 4, 128


@pytest.fixture(scope="module")
def run(launch):
    """The demo's run: the example script under tm, with a peak given for the CPU."""
    return launch.tm(
        *("--peak-tflops", "0.2", "--budget-steps", str(STEPS), str(EXAMPLE), "--steps", str(STEPS)),
        *("--batch-size", str(BATCH), "--eval-every", "10", "--out", "{out}"),
    )


@pytest.fixture(scope="module")
def server(run):
    """The address of a TensorBoard that shows the user's own log directory."""
    assert run.code == 0, run.stderr
    words = [
        "-m",
        "tensorboard.main",
        "--logdir",
        str(run.out),
        "--port",
        "0",
        "--host",
        "127.0.0.1",
        "--load_fast=false",
    ]
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
    try:
        for line in known(process.stderr):
            found = re.search(r"http://\S+?:(\d+)/", line)
            if found:
                yield f"http://127.0.0.1:{found[1]}"
                break
        else:
            pytest.fail("tensorboard did not start")
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def page(server):
    """The Time Series page, filtered to the charts that this file asks about."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1500, "height": 2600})
        page.set_default_timeout(90_000)
        wanted = urllib.parse.quote("trainmeter/(tokens$|mfu_pct|time/)")
        page.goto(f"{server}/?smoothing=0&tagFilter={wanted}#timeseries")
        page.wait_for_selector('scalar-card tb-truncated-path[title="trainmeter/tokens"]')
        yield page
        browser.close()


def served(server: str, tag: str) -> list[list[float]]:
    """What TensorBoard's server gives its page: [wall time, step, value] for each point."""
    query = urllib.parse.urlencode({"tag": tag, "run": "."})
    with urllib.request.urlopen(f"{server}/data/plugin/scalars/scalars?{query}", timeout=60) as answer:
        return json.loads(answer.read())


def shown(page, tag: str) -> dict[str, str]:
    """The data table under a chart: column to text, at the step that is selected (the last one)."""
    card = page.locator("scalar-card", has=page.locator(f'tb-truncated-path[title="{tag}"]'))
    table = card.locator("tb-data-table")
    table.locator("tb-data-table-content-cell").first.wait_for()
    headers = [cell.strip() for cell in table.locator("tb-data-table-header-cell").all_inner_texts()]
    cells = [cell.strip() for cell in table.locator("tb-data-table-content-cell").all_inner_texts()]
    return dict(zip(headers, cells, strict=True))


def test_the_server_gives_tokens_that_are_steps_times_batch_times_length(server):
    points = served(server, "trainmeter/tokens")
    assert len(points) >= 3
    assert points[-1][1] == STEPS
    for _, step, tokens in points:
        assert tokens == step * BATCH * LENGTH


def test_the_page_has_a_chart_for_each_series(page):
    titles = [path.get_attribute("title") for path in page.locator("scalar-card tb-truncated-path").all()]
    assert set(titles) == {
        "trainmeter/tokens",
        "trainmeter/mfu_pct",
        *(f"trainmeter/time/{kind}" for kind in TIME_KINDS),
    }


def test_the_page_shows_the_exact_tokens(page):
    row = shown(page, "trainmeter/tokens")
    assert row["Step"] == str(STEPS)
    assert row["Value"].replace(",", "") == str(STEPS * BATCH * LENGTH)


def test_the_page_shows_shares_and_mfu_as_they_were_measured(page, server):
    for tag in ("trainmeter/mfu_pct", "trainmeter/time/step", "trainmeter/time/other"):
        assert float(shown(page, tag)["Value"]) == pytest.approx(served(server, tag)[-1][2], abs=6e-5)


def test_the_users_own_loss_is_beside_them(server):
    assert [step for _, step, _ in served(server, "loss/train")] == list(range(1, STEPS + 1))
