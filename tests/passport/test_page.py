"""The passport as one HTML page: it shows the run, holds its own data, and nothing in it can do anything."""

from __future__ import annotations

import re

import pytest

from trainmeter_core.passport import page
from trainmeter_core.passport.build import build
from trainmeter_core.run_record import RunRecord, StepBlock
from trainmeter_core.run_tables import Loss

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202egnp.exe\x00"


@pytest.fixture
def passport():
    record = RunRecord()
    record.identity.run_id, record.identity.script = "r1", HOSTILE
    record.identity.command = ["python", HOSTILE]
    record.world_size = 1
    record.hardware.gpus = [HOSTILE]
    record.losses[HOSTILE] = Loss.of(1.5, 3)
    record.model = {"class": HOSTILE}
    record.add_steps(0, StepBlock(n=4, tokens=64, samples=4, wall_s=2.0, time_s={"step": 1.5, "data_wait": 0.5}))
    return build(record)


def test_every_string_of_the_run_stays_text(passport):
    text = page.render(passport)
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>") == 1
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;gnp.exe" in text
    assert "\u202e" not in text
    assert "\x00" not in text


def test_the_page_needs_no_network_and_runs_nothing(passport):
    text = page.render(passport)
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|\bsrc=\w+\.|url\(|@import", text.partition("<script")[0])
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="trainmeter-passport">']


def test_it_follows_the_readers_colour_scheme(passport):
    text = page.render(passport)
    assert "color-scheme:light dark" in text
    assert "prefers-color-scheme:dark" in text


def test_the_passport_itself_can_be_read_back_from_it(passport):
    assert page.passport_in(page.render(passport)) == passport


@pytest.mark.parametrize("text", ["", "<html></html>", '<script id="trainmeter-passport">{"a":'])
def test_a_page_without_a_passport_is_refused(text):
    with pytest.raises(ValueError, match="no passport"):
        page.passport_in(text)


def test_what_is_not_known_has_no_bar_and_stands_with_its_reason(passport):
    text = page.render(passport)
    assert "75 %" in text  # 1.5 of 2 seconds in steps
    assert ">GPU busy<" not in text
    assert "efficiency.hfu_pct" in text.partition("not known, and why")[2]
