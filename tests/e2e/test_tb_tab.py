"""The trainmeter tab in a real TensorBoard, under both of its data servers, as a browser shows it."""

from __future__ import annotations

import importlib
import json
import urllib.request

import numpy as np
import pytest

from tests.e2e.tb_runs import BEGIN, Story, write
from tests.e2e.tensorboard_server import CHROMIUM, CHROMIUM_ARGS, SERVERS, TensorBoard
from tests.tb.agent_in_test import Agent
from trainmeter_tb import plugin

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("tensorboard")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]

A, B = "gpt/baseline", "gpt/no-workers"
WRITERS = {"torch": "tensorboard.summary.writer.event_file_writer", "tensorboardX": "tensorboardX.event_file_writer"}
SMALLEST_TEXT_PX = 10
HTML = "<img src=x onerror=alert(1)>&lt;b&gt;"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    return tmp_path_factory.mktemp("logdir")


@pytest.fixture(scope="module")
def newest(logdir):
    """Three runs, and the newest value of each series in them; beside them one run of each user's writer."""
    for run, module in WRITERS.items():
        write_by_tap(importlib.import_module(module), str(logdir / run))
    return {
        A: write(str(logdir), Story(A, rows=40)),
        B: write(str(logdir), Story(B, rows=40, data_wait=0.25, begin=BEGIN - 100)),
        HTML: write(str(logdir), Story(HTML, rows=5, gpu=False, peak=False, begin=BEGIN - 9000)),
    }


def write_by_tap(module, logdir):
    """As a script does: its own writer, with the tap in."""
    agent = Agent()
    undo = plugin.install_tap(module, agent)
    writer = module.EventFileWriter(logdir)
    for step in range(5):
        agent.step()
        event = module.event_pb2.Event(step=step, wall_time=BEGIN - 20_000 + step)
        event.summary.value.add(tag="loss", simple_value=1.0)
        writer.add_event(event)
    writer.close()
    undo()
    plugin._publishers.clear()


@pytest.fixture(scope="module", params=list(SERVERS))
def tensorboard(request, logdir, newest):
    server = TensorBoard(str(logdir), *SERVERS[request.param])
    server.wait_for_runs(5)
    server.wait_for_runs(2, step=2000)
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.errors, page.hosts = [], set()
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and page.errors.append(message.text))
    page.on("dialog", lambda dialog: (page.errors.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: page.hosts.add(request.url.split("/")[2]))
    yield page
    context.close()


def open_tab(page, tensorboard, *, dark=False):
    page.goto(f"{tensorboard.url}/?darkMode={'true' if dark else 'false'}#trainmeter")
    frame = page.frame_locator("iframe")
    frame.locator("#headline").wait_for()
    return frame


def shown(frame, selector: str) -> list[float]:
    values = frame.locator(selector).evaluate_all("nodes => nodes.map(node => node.dataset.value)")
    return [float(value) for value in values]


def test_values_on_the_screen_are_those_of_the_event_files(page, tensorboard, newest):
    """Float32, as TensorBoard's scalars are."""
    frame = open_tab(page, tensorboard)
    for series in ("mfu_pct", "tokens_per_s", "flops", "flops_required", "tokens", "progress_pct", "step_time_s"):
        expected = [float(np.float32(newest[run]["trainmeter/" + series])) for run in (A, B)]
        assert shown(frame, f'.card [data-series="{series}"]') == expected, series
    for name, chart in {"mfu_pct": "MFU", "tokens_per_s": "Tokens per second", "tokens": "Tokens"}.items():
        legend = f'figure[aria-label^="Chart: {chart}."] .legend b'
        assert shown(frame, legend) == [float(np.float32(newest[run]["trainmeter/" + name])) for run in (A, B)]
    assert page.errors == []
    assert page.hosts == {tensorboard.url.split("/")[2]}, "nothing is fetched from elsewhere"


def test_the_headline_names_convention_and_peak(page, tensorboard):
    frame = open_tab(page, tensorboard)
    card = frame.get_by_role("group", name="MFU", exact=True)
    assert "torchtitan · peak 989.4 TFLOP/s bf16 · H100 SXM data sheet" in card.inner_text()


def test_two_runs_are_compared_in_words(page, tensorboard):
    frame = open_tab(page, tensorboard)
    words = frame.locator("#differences").inner_text()
    assert "B gpt/no-workers against A gpt/baseline" in words.replace("\n", " ")
    assert "more of its time waiting for data" in words
    assert "fewer tokens per second" in words
    assert "MFU" in words


def test_the_ladder_tells_what_each_gap_means(page, tensorboard):
    frame = open_tab(page, tensorboard)
    told = tensorboard.data(A)["runs"][A]["ladder"]
    text = frame.locator("#ladder .panel").first.inner_text()
    assert [rung["rung"][0] for rung in told["rungs"]] == list("123456")
    for gap in told["gaps"]:
        assert gap["sentence"] in text
    bars = shown(frame, '#ladder .panel:first-child .ladder [data-series^="median ladder/"]')
    assert bars == [rung["value"] for rung in told["rungs"]]


def test_every_convention_and_every_kind_of_time_is_shown(page, tensorboard, newest):
    frame = open_tab(page, tensorboard)
    conventions = {name for name in newest[A] if name.startswith("trainmeter/mfu/")}
    assert len(shown(frame, '#conventions .panel:first-child .bars [data-series^="median mfu/"]')) == len(conventions)
    shares = shown(frame, "#time .panel:first-child .shares + .legend .value")
    passport = tensorboard.data(A)["runs"][A]["passport"]["json"]
    assert shares == [share["value"] for share in passport["time"]["shares"].values()]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert "ridge" in frame.locator("#roofline svg").inner_html()


def test_what_is_not_known_says_why(page, tensorboard):
    frame = open_tab(page, tensorboard)
    for name in (A, B):
        frame.get_by_role("checkbox", name=name).uncheck()
    frame.get_by_role("checkbox", name=HTML).check()
    frame.get_by_text("n/a: no GPU, so no peak: give the peak of one device with --peak-tflops").first.wait_for()
    frame.get_by_text("no GPU counters were published").wait_for()


def test_markup_in_a_runs_name_is_text(page, tensorboard):
    frame = open_tab(page, tensorboard)
    frame.get_by_role("checkbox", name=HTML).check()
    frame.locator("#passport td", has_text=HTML).first.wait_for()
    assert frame.locator("img").count() == 0
    assert frame.locator(".chip", has_text=HTML).count() > 0
    assert page.errors == []


def test_it_follows_dark_mode_while_it_is_open(page, tensorboard):
    frame = open_tab(page, tensorboard, dark=True)
    background = "getComputedStyle(document.body).backgroundColor"
    assert frame.locator("body").evaluate(background) == "rgb(31, 34, 38)"
    page.evaluate("document.body.classList.remove('dark-mode')")
    frame.locator("html[data-theme=light]").wait_for()
    assert frame.locator("body").evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [1280, 2560])
def test_it_is_readable_on_a_narrow_and_on_a_wide_screen(page, tensorboard, width):
    """Nothing is cut off sideways, the width is used, and no text is tiny."""
    page.set_viewport_size({"width": width, "height": 1400})
    frame = open_tab(page, tensorboard)
    frame.locator("#overview canvas").first.wait_for()
    body = frame.locator("body")
    assert body.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    sizes = body.evaluate(
        """body => [...body.querySelectorAll("*")].filter(
             node => node.checkVisibility() && [...node.childNodes].some(c => c.nodeType == 3 && c.data.trim()))
           .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    )
    assert min(sizes) >= SMALLEST_TEXT_PX
    headline = frame.locator("#headline").bounding_box()
    assert headline["width"] > 0.6 * width


def test_it_is_usable_by_keyboard_alone(page, tensorboard, newest):
    frame = open_tab(page, tensorboard)
    chart = frame.locator('figure[aria-label^="Chart: Tokens."]')
    chart.focus()
    page.keyboard.press("Home")
    first = shown(frame, 'figure[aria-label^="Chart: Tokens."] .legend b')[0]
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    before_last = shown(frame, 'figure[aria-label^="Chart: Tokens."] .legend b')[0]
    last = newest[A]["trainmeter/tokens"]
    assert first == pytest.approx(last / 40)
    assert before_last == pytest.approx(last * 39 / 40)
    box = frame.get_by_role("checkbox", name=B)
    box.focus()
    page.keyboard.press("Space")
    frame.locator("#differences").wait_for(state="detached")


def test_charts_can_be_read_along_time_and_tokens(page, tensorboard, newest):
    frame = open_tab(page, tensorboard)
    frame.get_by_role("radio", name="tokens").check()
    chart = frame.locator('figure[aria-label^="Chart: MFU."]')
    chart.focus()
    page.keyboard.press("End")
    assert chart.locator(".place").inner_text().startswith("tokens 524.288 M")
    frame.get_by_role("radio", name="time").check()
    page.keyboard.press("Tab")
    chart.focus()
    page.keyboard.press("End")
    assert chart.locator(".place").inner_text().startswith("hours 0.0")


def test_the_passport_can_be_copied_and_downloaded(page, tensorboard):
    frame = open_tab(page, tensorboard)
    passport = tensorboard.data(A)["runs"][A]["passport"]
    with page.expect_download() as download:
        frame.get_by_role("button", name="Download JSON").first.click()
    with open(download.value.path()) as file:
        assert json.load(file) == passport["json"]
    assert download.value.suggested_filename == "passport-gpt_baseline.json"
    frame.get_by_role("button", name="Copy as Markdown").first.click()
    frame.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == passport["markdown"]


def test_the_nodes_readings_are_read_when_they_are_asked_for(page, tensorboard, newest):
    frame = open_tab(page, tensorboard)
    assert frame.locator("#node .strip").count() == 0
    frame.locator("#node summary").click()
    frame.locator("#node .strip").first.wait_for()
    assert shown(frame, '#node [data-series="node/load_1"]') == [
        float(np.float32(newest[run]["trainmeter/node/load_1"])) for run in (A, B)
    ]


def test_every_answer_forbids_sniffing_and_a_wrong_question_is_refused(tensorboard):
    for route in ("plugin/trainmeter/runs", "plugin/trainmeter/static/index.js", "plugin/trainmeter/static/index.css"):
        with urllib.request.urlopen(f"{tensorboard.url}/data/{route}") as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for query in ("", "?" + "&".join(f"run=r{n}" for n in range(13))):
        with pytest.raises(urllib.error.HTTPError) as refused:
            tensorboard.get("plugin/trainmeter/data" + query)
        assert refused.value.code == 400


def test_a_growing_run_is_followed(page, tmp_path):
    """No reload by hand: new rows appear while the page is open."""
    from trainmeter_tb.local import LocalEvents

    events = LocalEvents(str(tmp_path / "live"))
    events.write({"trainmeter/step": 1.0, "trainmeter/tokens": 100.0, "trainmeter/tokens_per_s": 10.0}, 1, BEGIN)
    server = TensorBoard(str(tmp_path))
    try:
        server.wait_for_runs(1)
        frame = open_tab(page, server)
        assert shown(frame, '.card [data-series="tokens_per_s"]') == [10.0]
        events.write(
            {"trainmeter/step": 2.0, "trainmeter/tokens": 200.0, "trainmeter/tokens_per_s": 20.0}, 2, BEGIN + 1
        )
        events.close("# done")
        frame.locator('.card [data-series="tokens_per_s"][data-value="20"]').wait_for(timeout=40_000)
    finally:
        server.close()


def test_log_directories_of_several_places_are_shown_by_the_names_that_the_user_gave(page, logdir, newest):
    """--logdir_spec, which only TensorBoard's own Python server knows."""
    server = TensorBoard("", f"--logdir_spec=left:{logdir / A},right:{logdir / B}")
    try:
        server.wait_for_runs(2, step=2000)
        frame = open_tab(page, server)
        words = frame.locator("#differences").inner_text().replace("\n", " ")
        assert "B right/. against A left/." in words
        shown_values = shown(frame, '.card [data-series="tokens"]')
        assert shown_values == [float(np.float32(newest[run]["trainmeter/tokens"])) for run in (A, B)]
    finally:
        server.close()


def test_many_runs_can_be_filtered(page, tmp_path):
    from trainmeter_tb.local import LocalEvents

    for number in range(200):
        events = LocalEvents(str(tmp_path / f"sweep/lr{number:03d}"))
        events.write({"trainmeter/step": 1.0, "trainmeter/mfu_pct": number / 4}, 1, BEGIN + number)
        events.close(None)
    server = TensorBoard(str(tmp_path))
    try:
        server.wait_for_runs(200)
        frame = open_tab(page, server)
        assert frame.get_by_role("checkbox").count() == 200
        assert frame.locator(".runs input:checked").evaluate_all("all => all.map(one => one.value)") == [
            "sweep/lr199",
            "sweep/lr198",
        ]
        frame.get_by_role("searchbox").fill("lr04")
        assert frame.get_by_role("checkbox").count() == 10
    finally:
        server.close()


@pytest.mark.parametrize("run", list(WRITERS))
def test_a_run_of_the_users_own_writer_is_found(tensorboard, run):
    """Series and passport that were put into the user's event file come back through TensorBoard."""
    found = tensorboard.wait_for(f"plugin/trainmeter/data?run={run}", lambda a: a["runs"][run]["passport"])["runs"][run]
    assert found["series"]["step"]["values"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found["passport"]["json"]["data"]["steps"]["value"] == 5
    assert tensorboard.get("plugins_listing")["trainmeter"]["enabled"]
