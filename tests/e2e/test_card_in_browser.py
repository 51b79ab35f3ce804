"""A model card as a reader sees it: GitHub-flavoured Markdown in a real browser, on a light and on a dark page."""

from __future__ import annotations

import os

import pytest

markdown_it = pytest.importorskip("markdown_it")
sync_api = pytest.importorskip("playwright.sync_api")

from tests.passport.passport_runs import rich, toy_formulas  # noqa: E402
from trainmeter_core.passport.build import build  # noqa: E402
from trainmeter_core.passport.card import card, pictures_of  # noqa: E402

pytestmark = pytest.mark.browser

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
STYLE = """
:root{color-scheme:light dark}body{font:16px system-ui;max-width:900px;margin:24px auto;background:#fff;color:#1f2328}
table{border-collapse:collapse}td,th{border:1px solid #8884;padding:4px 10px}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#f0f6fc}}
"""


@pytest.fixture
def rendered(tmp_path):
    """The card as HTML, its metadata taken off as GitHub and the Hub do, with its pictures beside it."""
    passport = build(rich(), toy_formulas)
    for name, picture in pictures_of(passport, "card").items():
        (tmp_path / name).write_text(picture)
    metadata, body = card(passport, 0.4, "card").removeprefix("---\n").split("---\n", 1)
    assert "co2_eq_emissions" in metadata
    html = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(body)
    page = tmp_path / "card.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{html}')
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_are_those_of_the_page_and_tables_are_tables(rendered, scheme):
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 1400})
        page.goto(rendered.as_uri())
        pictures = page.evaluate("[...document.images].map(i => [i.currentSrc.split('/').pop(), i.naturalWidth])")
        headings = page.locator("h2").all_inner_texts()
        cells = page.locator("td").all_inner_texts()
        if os.environ.get("SCREENSHOTS"):
            page.screenshot(path=os.path.join(os.environ["SCREENSHOTS"], f"card-{scheme}.png"), full_page=True)
        browser.close()
    assert pictures == [[f"card-time-{scheme}.svg", 640], [f"card-ladder-{scheme}.svg", 640]]
    assert {"Compute", "Worked out by hand", "Environmental impact"} <= set(headings)
    assert "train.py" in cells
    assert not any("|" in cell for cell in cells)
