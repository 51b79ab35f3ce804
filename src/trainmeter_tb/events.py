"""What an event says, copied out of its proto, and values put into one; works with any package's own Event class."""

from __future__ import annotations

import functools
import json
import math
import struct
from typing import Any, Mapping, NamedTuple

from trainmeter_core.series import series_of

LAYOUT_TAG = "custom_scalars__config__"
LAYOUT_PLUGIN = "custom_scalars"
TEXT_PLUGIN = "text"
SCALARS_PLUGIN = "scalars"
OWN_PLUGIN = "trainmeter"

PASSPORT_TAG = "trainmeter/passport"
PASSPORT_JSON_TAG = "trainmeter/passport_json"
# Written first, so that TensorBoard shows our tab before there is a passport.
VERSION_TAG = "trainmeter/version"
COUNTS_TAG = "trainmeter/exact_counts"

_START = 1  # SessionLog.START

_DT_STRING = 7

# TensorProto's DataType: the repeated field that holds its values, and the format of its packed bytes.
_NUMBERS: dict[int, tuple[str, str]] = {
    1: ("float_val", "<f"),
    2: ("double_val", "<d"),
    3: ("int_val", "<i"),
    9: ("int64_val", "<q"),
    14: ("half_val", "<H"),
    19: ("half_val", "<e"),
}
_BFLOAT16 = 14
_HALF = 19

_COUNTED = frozenset({"steps", "tokens", "samples", "FLOPs"})


class Told(NamedTuple):
    """The parts of one event that matter to us. `layout` is a serialized custom_scalars Layout."""

    step: int
    wall_time: float
    scalars: list[tuple[str, float]]
    layout: bytes | None
    session_start: bool


def told_by(event: Any) -> Told:
    """Copy out of an Event what matters to us; nothing of the proto is kept."""
    scalars: list[tuple[str, float]] = []
    layout: bytes | None = None
    what = event.WhichOneof("what")
    if what == "summary":
        for value in event.summary.value:
            number = scalar_of(value)
            if number is not None:
                scalars.append((value.tag, number))
            elif value.tag == LAYOUT_TAG:
                layout = string_of(value)
    started = what == "session_log" and event.session_log.status == _START
    return Told(event.step, event.wall_time, scalars, layout, started)


def scalar_of(value: Any) -> float | None:
    """Give the number in a Summary.Value, whichever way it was written; None for anything but a scalar."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or value.metadata.plugin_data.plugin_name not in ("", SCALARS_PLUGIN):
        return None
    return _number_in(value.tensor)


def _number_in(tensor: Any) -> float | None:
    encoding = _NUMBERS.get(tensor.dtype)
    if encoding is None or any(dim.size != 1 for dim in tensor.tensor_shape.dim):
        return None
    field, code = encoding
    if tensor.tensor_content:
        if len(tensor.tensor_content) != struct.calcsize(code):
            return None
        bits = struct.unpack(code, tensor.tensor_content)[0]
    else:
        values = getattr(tensor, field)
        if len(values) != 1:
            return None
        bits = values[0]
        if tensor.dtype == _HALF:
            bits = struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]
    if tensor.dtype == _BFLOAT16:
        bits = struct.unpack("<f", struct.pack("<I", (bits & 0xFFFF) << 16))[0]
    return float(bits)


def string_of(value: Any) -> bytes | None:
    """Give the one string in a Summary.Value, as bytes; None when it holds no string."""
    if value.WhichOneof("value") != "tensor" or len(value.tensor.string_val) != 1:
        return None
    return bytes(value.tensor.string_val[0])


def add_row(event: Any, row: Mapping[str, float]) -> None:
    """Add all finite values of a row as simple_values; counts that these cannot hold stand exactly in one text.

    A simple_value is a float32. TensorBoard's default data server shows no scalar that is a double, so that exact
    counts go beside the series, where our own reader finds them.
    """
    exact: dict[str, int] = {}
    for tag, number in row.items():
        if not math.isfinite(number):
            continue
        value = event.summary.value.add()
        value.tag = tag
        value.simple_value = number
        if value.simple_value != number and _is_count(tag):
            exact[tag] = int(number)
    if exact:
        add_string(event, COUNTS_TAG, OWN_PLUGIN, json.dumps(exact, separators=(",", ":")).encode())


@functools.lru_cache(maxsize=4096)
def _is_count(tag: str) -> bool:
    try:
        return series_of(tag).unit in _COUNTED
    except KeyError:  # a series of a newer core, or a third party's
        return False


def add_string(event: Any, tag: str, plugin: str, content: bytes) -> None:
    """Add one string tensor that belongs to the named TensorBoard plugin.

    With ``text`` it is rendered as Markdown under Text; with our own plugin's name only our tab and our reader look.
    """
    value = event.summary.value.add()
    value.tag = tag
    value.metadata.plugin_data.plugin_name = plugin
    if plugin == OWN_PLUGIN:
        # data_class = DATA_CLASS_TENSOR, as bytes: tensorboardX's own proto does not know the field.
        value.metadata.MergeFromString(b"\x20\x02")
    value.tensor.dtype = _DT_STRING
    value.tensor.tensor_shape.SetInParent()
    value.tensor.string_val.append(content)
