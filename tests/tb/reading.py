"""Reads event files with TensorBoard's own loader, so that what we wrote is judged by another's code than ours."""

from __future__ import annotations

import glob
import os

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.util import tensor_util

COUNTS_TAG = "trainmeter/exact_counts"
LAYOUT_TAG = "custom_scalars__config__"


def files(logdir) -> list[str]:
    """The event files in the order in which they were opened: a name ends in a count, of which 10 follows 9."""
    found = glob.glob(os.path.join(str(logdir), "*tfevents*"))
    return sorted(found, key=lambda path: ([int(part) if part.isdigit() else 0 for part in path.split(".")], path))


def events(logdir) -> list:
    return [event for path in files(logdir) for event in LegacyEventFileLoader(path).Load()]


def is_ours(event) -> bool:
    tags = [value.tag for value in event.summary.value]
    if tags == [LAYOUT_TAG]:
        return any(category.title == "trainmeter" for category in layout_in(event).category)
    return bool(tags) and all(tag.startswith("trainmeter/") for tag in tags)


def user_events(logdir) -> list:
    return [event for event in events(logdir) if not is_ours(event)]


def rows(logdir) -> list[tuple[int, dict[str, float]]]:
    """Our rows as (step, values)."""
    return [
        (event.step, {value.tag: number(value) for value in event.summary.value if value.tag != COUNTS_TAG})
        for event in events(logdir)
        if is_ours(event) and len(event.summary.value) > 1
    ]


def number(value) -> float:
    if value.WhichOneof("value") == "simple_value":
        return value.simple_value
    return tensor_util.make_ndarray(value.tensor).item()


def scalars(logdir, tag: str) -> list[tuple[int, float]]:
    return [(e.step, number(v)) for e in events(logdir) for v in e.summary.value if v.tag == tag]


def strings(logdir, tag: str) -> list[tuple[int, str]]:
    return [(e.step, v.tensor.string_val[0].decode()) for e in events(logdir) for v in e.summary.value if v.tag == tag]


def layout_in(event):
    return layout_pb2.Layout.FromString(event.summary.value[0].tensor.string_val[0])


def layouts(logdir) -> list:
    return [layout_in(e) for e in events(logdir) if [v.tag for v in e.summary.value] == [LAYOUT_TAG]]


def titles(layout) -> list[str]:
    return [category.title for category in layout.category]
