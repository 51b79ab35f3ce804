"""MLflow's own interface in a real browser: our charts, our page and the shared view are there without a click."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.mlflow.test_mlflow_tap import client_program

pytestmark = pytest.mark.browser

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        except playwright.Error as error:
            pytest.skip(f"no Chromium that Playwright can drive: {error}")
        yield opened
        opened.close()


@pytest.fixture
def page(browser, request):
    shown = browser.new_page(viewport={"width": 1600, "height": 1800})
    shown.set_default_timeout(PATIENCE_MS)
    yield shown
    kept = os.environ.get("TRAINMETER_SCREENSHOTS")
    if kept:
        shown.wait_for_timeout(1500)
        shown.screenshot(path=str(Path(kept) / (request.node.name + ".png")))
    shown.close()


def until_shown(page, text):
    """Wait until the page's text has this in it."""
    page.wait_for_function("text => document.body.innerText.replace(/\\s+/g, ' ').includes(text)", arg=text)


@pytest.fixture
def run_page(agent, server, tapped):
    """The address of a run's page, and of its experiment's."""
    run_id = client_program(server, agent)
    tapped.finish()
    assert not agent.failures
    experiment = next(where["experiment_id"] for _, where in agent.places if "experiment_id" in where)
    return f"{server}/#/experiments/{experiment}/runs/{run_id}", f"{server}/#/experiments/{experiment}/runs"


def test_our_series_have_charts_of_their_own_among_the_model_metrics(page, run_page):
    page.goto(run_page[0] + "/model-metrics")
    for told in ("trainmeter (3)", "trainmeter/ladder (6)", "trainmeter/time (2)", "(trainmeter/mfu_pct)"):
        until_shown(page, told)


def test_the_panel_is_rendered_among_the_artifacts(page, run_page):
    page.goto(run_page[0] + "/artifacts/trainmeter/panel.html")
    frame = page.frame_locator("iframe")
    frame.get_by_text("Utilization ladder, newest reading").wait_for()
    frame.get_by_text("<img src=x>").wait_for()  # text, not an image
    assert frame.locator("img").count() == 0


def test_the_description_shows_our_three_lines(page, run_page):
    page.goto(run_page[0])
    page.get_by_text("more in Artifacts, trainmeter/panel.html").wait_for()
    assert page.get_by_text("<!-- trainmeter").count() == 0


def test_the_shared_view_has_all_rungs_in_one_chart(page, run_page):
    page.goto(run_page[1] + "?viewStateShareKey=trainmeter&compareRunsMode=CHART")
    until_shown(page, "trainmeter: utilization ladder (1)")
    until_shown(page, "trainmeter: where the time goes (1)")
    rungs = ("1_gpu_util", "2_sm_active", "3_tensor_active", "4_ofu", "5_hfu", "6_mfu")
    titled = " vs ".join(f"trainmeter/ladder/{rung}" for rung in rungs)
    page.get_by_text(titled).first.wait_for()
    plot = page.locator(".js-plotly-plot").first
    plot.wait_for()
    drawn = plot.evaluate("plot => [...new Set(plot.data.map(trace => trace.metricKey))]")
    assert sorted(drawn) == [f"trainmeter/ladder/{rung}" for rung in rungs]
