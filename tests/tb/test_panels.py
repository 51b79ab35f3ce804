"""The custom_scalars layout: ours is there, and the user's own is kept, in whatever order they are written."""

from __future__ import annotations

from tensorboard.plugins.custom_scalar import layout_pb2

from tests.tb import reading
from trainmeter_tb import panels

MINE = {"mine": {"losses": ["Multiline", ["loss.*"]], "band": ["Margin", ["m", "lo", "hi"]]}}


def run(package, agent, logdir, *, before=None, after=(), steps=2) -> None:
    writer = package.SummaryWriter(str(logdir))
    if before:
        writer.add_custom_scalars(before)
    for step in range(steps):
        agent.step()
        writer.add_scalar("loss", 1.0, step)
    for layout in after:
        writer.add_custom_scalars(layout)
    writer.close()


def test_without_a_layout_of_the_users_ours_is_shown(tapped, agent, tmp_path):
    run(tapped, agent, tmp_path)
    (layout,) = reading.layouts(tmp_path)
    assert reading.titles(layout) == ["trainmeter"]
    assert [chart.title for chart in layout.category[0].chart][:3] == [
        "MFU by convention",
        "Utilization ladder",
        "Where the time goes",
    ]


def test_a_layout_written_before_ours_is_kept(tapped, agent, tmp_path):
    run(tapped, agent, tmp_path, before=MINE)
    last = reading.layouts(tmp_path)[-1]
    assert reading.titles(last) == ["mine", "trainmeter"]
    assert list(last.category[0].chart[0].multiline.tag) == ["loss.*"]
    assert last.category[0].chart[1].margin.series[0].upper == "hi"


def test_a_layout_written_after_ours_is_followed_by_both(tapped, agent, tmp_path):
    run(tapped, agent, tmp_path, after=[MINE])
    assert reading.titles(reading.layouts(tmp_path)[-1]) == ["mine", "trainmeter"]


def test_the_users_last_layout_counts_however_often_they_write_one(tapped, agent, tmp_path):
    other = {"other": {"x": ["Multiline", ["y"]]}}
    run(tapped, agent, tmp_path, before=MINE, after=[other, MINE, other])
    assert reading.titles(reading.layouts(tmp_path)[-1]) == ["other", "trainmeter"]


def test_a_layout_of_an_earlier_file_is_kept_on_resume(package, agent, tmp_path):
    """The first part ran without us and left a layout; the resumed part writes none."""
    from trainmeter_tb import plugin

    writer = package.SummaryWriter(str(tmp_path), filename_suffix=".a")
    writer.add_custom_scalars(MINE)
    writer.add_scalar("loss", 1.0, 0)
    writer.close()
    for suffix in (".b", ".c"):
        undo = plugin.install_tap(package.module, agent)
        writer = package.SummaryWriter(str(tmp_path), filename_suffix=suffix)
        agent.step()
        writer.add_scalar("loss", 1.0, 1)
        writer.close()
        undo()
        plugin._publishers.clear()
        last = reading.layouts(tmp_path)[-1]
        assert reading.titles(last) == ["mine", "trainmeter"], suffix


def test_a_layout_of_an_earlier_version_of_ours_is_replaced():
    old = layout_pb2.Layout()
    old.category.add(title="theirs")
    stale = old.category.add(title="trainmeter")
    stale.chart.add(title="gone").multiline.tag.append("trainmeter/gone")
    merged = layout_pb2.Layout.FromString(panels.merged_layout(layout_pb2.Layout, old.SerializeToString()))
    assert reading.titles(merged) == ["theirs", "trainmeter"]
    assert "gone" not in [chart.title for chart in merged.category[1].chart]


def test_a_category_of_the_users_that_has_our_title_is_kept():
    theirs = layout_pb2.Layout()
    theirs.category.add(title="trainmeter").chart.add(title="c").multiline.tag.append("my/tag")
    merged = layout_pb2.Layout.FromString(panels.merged_layout(layout_pb2.Layout, theirs.SerializeToString()))
    assert reading.titles(merged) == ["trainmeter", "trainmeter"]


def test_every_tag_pattern_names_series_that_are_published():
    """A chart that can match nothing would be an empty box."""
    import re

    from trainmeter_core.series import SERIES

    names = [
        "trainmeter/" + series.name.replace("<convention>", "hf").replace("<reading>", "load1") for series in SERIES
    ]
    for _title, patterns in panels.CHARTS:
        for pattern in patterns:
            assert any(re.match(pattern, name) for name in names), pattern
