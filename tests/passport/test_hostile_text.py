"""Every text that a stranger may choose (run, script, model, loss, GPU, tracker) stays text, in everything we write."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests.known import known
from trainmeter_core.outside.metrics.text import exposition, samples
from trainmeter_core.passport import card, compare, markdown, page, panel
from trainmeter_core.passport.build import build
from trainmeter_core.run_record import RunRecord, StepBlock
from trainmeter_core.run_tables import Loss
from trainmeter_mlflow import panels as mlflow_panels

NAMES = {
    "script": "</script></title></style><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover=alert(1) x='",
    "svg": "]]><svg onload=alert(1)>",
    "comment": "--><script>alert(1)</script><!-- /trainmeter -->",
    "link": "[x](javascript:alert(1)) <javascript:alert(1)> [y]: http://evil.example",
    "picture": "![x](http://evil.example/p.png)",
    "cell": "a | b |\n|---|---|\n# heading\r\n- list\n```\ncode",
    "mention": "@everyone #1 www.evil.example http://evil.example",
    "entity": "&lt;script&gt;&#60;script&#62;",
    "direction": "\u202egnp.exe\u2066\u200b",
    "control": "a\x00b\x1b[31mc\x07\x85\u2028",
    "surrogate": "\ud800<b>",
    "template": "{{7*7}}${7*7}<%= 7 %>$(id)`id`",
}
OF_OURS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "table", "tr", "th", "td", "thead", "tbody",
    "div", "span", "i", "u", "b", "script", "header", "main", "section", "small", "strong", "em", "br", "code", "details",
    "summary", "ul", "li", "dl", "dt", "dd",
}  # fmt: skip


def passport(hostile: str):
    record = RunRecord()
    for name in ("run_id", "name", "script", "git_commit"):
        setattr(record.identity, name, hostile)
    record.identity.command = ["python", hostile]
    record.world_size = 1
    record.hardware.gpus = [hostile]
    record.options.peak_source = hostile
    record.options.peak_tflops = 1.0
    record.losses[hostile] = Loss.of(1.5, 3)
    record.model = {"class": hostile, "config": {hostile: hostile}}
    record.trackers = [{"tracker": hostile, "where": {"logdir": hostile}}]
    record.add_steps(0, StepBlock(n=4, tokens=64, samples=4, wall_s=2.0, time_s={"step": 1.5, "data_wait": 0.5}))
    return build(record)


class Seen(HTMLParser):
    """Tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def is_safe_html(text: str) -> None:
    seen = Seen()
    seen.feed(text)
    for tag, attributes in seen.tags:
        assert tag in OF_OURS, tag
        assert not any(name.startswith("on") or name in ("src", "href", "srcset") for name in attributes), attributes
    scripts = [attributes for tag, attributes in seen.tags if tag == "script"]
    assert all(attributes.get("type") == "application/json" for attributes in scripts)
    assert len(scripts) <= 1
    assert not {"\x00", "\u202e", "\x1b"} & set(text)


def is_safe_markdown(text: str) -> None:
    """Rendered by a renderer that lets HTML through and links what looks like an address."""
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    seen = Seen()
    seen.feed(html.replace(mlflow_panels._START, "").replace(mlflow_panels._END, ""))
    tags = {tag for tag, _ in seen.tags}
    assert not tags & {"script", "img", "svg", "a", "iframe", "style", "object", "form"}, tags
    assert html.count("<h1>") <= 1
    assert "http://evil" not in text
    assert "www.evil" not in text
    assert not {"\x00", "\u202e", "\x1b"} & set(text)


def is_safe_svg(text: str) -> None:
    tree = ET.fromstring(text)
    assert {each.tag.rpartition("}")[2] for each in tree.iter()} <= {
        "svg",
        "style",
        "rect",
        "text",
        "g",
        "title",
        "line",
    }


def is_one_label(text: str) -> None:
    """The Prometheus text: each line a comment, or a sample with one value."""
    for line in text.rstrip("\n").split("\n"):
        assert line.startswith("#") or line.rpartition(" ")[2].replace(".", "").isdigit(), line


WRITERS = {
    "passport.md": (markdown.render, is_safe_markdown),
    "a table of several runs": (lambda each: compare.table([each, each]), is_safe_markdown),
    "model card": (lambda each: card.impact(each, 0.4), is_safe_markdown),
    "passport.html, W&B's panel": (page.render, is_safe_html),
    "MLflow's panel.html": (lambda each: panel.panel(each, {"trainmeter/node/cpu_pct": 1.0}), is_safe_html),
    "MLflow's description": (
        lambda each: mlflow_panels.note("mine", mlflow_panels.headline({}, each)),
        is_safe_markdown,
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("hostile", NAMES)
def test_a_hostile_name_stays_text(writer, hostile):
    write, is_safe = WRITERS[writer]
    text = known(write(passport(NAMES[hostile])))
    text.encode()
    is_safe(text)


@pytest.mark.parametrize("hostile", NAMES)
def test_pictures_of_it_are_well_formed(hostile):
    for text in card.pictures_of(passport(NAMES[hostile]), "p").values():
        is_safe_svg(text)


@pytest.mark.parametrize("hostile", NAMES)
def test_a_label_of_the_metrics_stays_one(hostile):
    is_one_label(exposition(samples({"node/cpu_pct": 1.0}, labels={"run": NAMES[hostile], "node": NAMES[hostile]})))
