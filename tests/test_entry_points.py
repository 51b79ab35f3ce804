"""Entry points are found as importlib.metadata finds them, without its imports."""

from __future__ import annotations

import importlib.metadata

import pytest

from trainmeter_core.entry_points import EntryPoint, entry_points, parse


@pytest.mark.parametrize("group", ["trainmeter", "console_scripts", "pytest11", "no-such-group"])
def test_they_are_those_that_importlib_metadata_finds_in_this_environment(group):
    theirs = {
        (entry.name, entry.value.partition("[")[0].strip()) for entry in importlib.metadata.entry_points(group=group)
    }
    assert {tuple(entry) for entry in entry_points(group)} == theirs


def test_a_distribution_that_lies_on_the_path_twice_counts_once(tmp_path):
    for place, version in (("first", "2.0"), ("second", "1.0")):
        folder = tmp_path / place / f"My_Adapter-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "entry_points.txt").write_text(f"[trainmeter]\nmine = {place}.plugin\n")
    found = entry_points("trainmeter", [str(tmp_path / "first"), str(tmp_path / "gone"), str(tmp_path / "second")])
    assert found == [EntryPoint("mine", "first.plugin")]


def test_comments_other_sections_and_extras_are_no_part_of_an_entry():
    text = "[a]\n# x = y\n;x = y\none = m.n:attr [extra]\n[b]\ntwo = m\n"
    assert parse(text, "a") == [EntryPoint("one", "m.n:attr")]
