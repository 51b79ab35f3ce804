"""The custom_scalars layout: charts that any TensorBoard shows, beside the user's own; pure."""

from __future__ import annotations

from typing import Any, Iterable

CATEGORY = "trainmeter"

# Title, and the tags as regular expressions, which TensorBoard matches from the start of a tag.
CHARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("MFU by convention", (r"trainmeter/mfu/.*", r"trainmeter/mfu_pct$")),
    ("Utilization ladder", (r"trainmeter/ladder/.*",)),
    ("Where the time goes", (r"trainmeter/time/.*",)),
    ("Tokens per second", (r"trainmeter/tokens_per_s$", r"trainmeter/tokens_per_s_per_gpu$")),
    ("Tokens", (r"trainmeter/tokens$",)),
    ("FLOPs", (r"trainmeter/flops$", r"trainmeter/flops_required$")),
    ("TFLOP/s", (r"trainmeter/tflops$", r"trainmeter/tflops_per_gpu$", r"trainmeter/gpu/observed_tflops$")),
    ("Time per step", (r"trainmeter/step_time_s$",)),
    ("Progress", (r"trainmeter/progress_pct$",)),
    ("Arithmetic intensity", (r"trainmeter/intensity/.*",)),
    ("GPU power", (r"trainmeter/gpu/power_w$",)),
)

_OURS = "trainmeter/"


def merged_layout(layout_class: Any, theirs: bytes | None) -> bytes:
    """Give the user's layout with our category after it, serialized.

    `layout_class` is the Layout of either package. What is not ours in `theirs` is kept as it is, unknown fields too.
    """
    layout = layout_class()
    if theirs:
        layout.MergeFromString(theirs)
        kept = [category for category in layout.category if not is_ours(category)]
        if len(kept) < len(layout.category):
            copies = [_copy_of(category) for category in kept]
            del layout.category[:]
            layout.category.extend(copies)
    ours = layout.category.add()
    ours.title = CATEGORY
    for title, tags in CHARTS:
        chart = ours.chart.add()
        chart.title = title
        chart.multiline.tag.extend(tags)
    return bytes(layout.SerializeToString())


def _copy_of(category: Any) -> Any:
    copy = type(category)()
    copy.CopyFrom(category)
    return copy


def is_ours(category: Any) -> bool:
    """True for a category that trainmeter wrote, of whatever version: our title, and nothing but our tags in it."""
    if category.title != CATEGORY:
        return False
    return all(tag.startswith(_OURS) for chart in category.chart for tag in _tags_of(chart))


def _tags_of(chart: Any) -> Iterable[str]:
    yield from chart.multiline.tag
    for series in chart.margin.series:
        yield from (series.value, series.lower, series.upper)
