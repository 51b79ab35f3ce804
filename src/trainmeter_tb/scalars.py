"""Streams scalars out of an event file, in every way that they are written, in constant memory."""

from __future__ import annotations

import struct
from typing import Any, Callable, Iterable, Iterator, Tuple

from .events import scalar_of

_WALL_TIME = 0x09  # field 1, eight bytes
_STEP = 0x10  # field 2, a varint
_SUMMARY = b"\x2a"  # field 5, and inside it: value = 1, tag = 1, simple_value = 2
_VALUE = b"\x0a"
_SIMPLE_VALUE = b"\x15"

_MOST_TAGS = 1 << 14
_LONGEST_VARINT = 5
_double = struct.Struct("<d").unpack_from
_float = struct.Struct("<f").unpack_from


Scalar = Tuple[float, int, str, float]
"""One point: seconds since the epoch, the user's step, tag, value."""


class EventReader:
    """Gives the scalars of one event file's records; `other` is called with each event that holds anything else.

    Nearly every record of a training run is one simple_value, and those of one tag differ only in time, step and value.
    Such a record is taken apart by these places; the bytes between step and value must be, byte by byte, those that
    protobuf itself was seen to read as that tag. Everything else goes through protobuf. `unreadable` counts records
    that are whole but no event.
    """

    def __init__(self, records: Iterable[bytes], event_class: Any, other: Callable[[Any], None]) -> None:
        self._records = records
        self._event = event_class
        self._other = other
        self._tags: dict[bytes, str] = {}
        self.unreadable = 0

    def __iter__(self) -> Iterator[Scalar]:
        """Read all records once."""
        tag_of = self._tags.get
        for data in self._records:
            between, step = _step_of(data)
            tag = tag_of(data[between:-4]) if between else None
            if tag is not None:
                yield _double(data, 1)[0], step, tag, _float(data, len(data) - 4)[0]
                continue
            event = self._parsed(data)
            if event is None:
                continue
            found = 0
            values = event.summary.value
            for value in values:
                number = scalar_of(value)
                if number is not None:
                    found += 1
                    yield event.wall_time, event.step, value.tag, number
            if not found or found < len(values):
                self._other(event)
            elif found == 1 and between:
                self._learn(data[between:-4], values[0].tag)

    def _parsed(self, data: bytes) -> Any:
        try:
            return self._event.FromString(data)
        except Exception:  # noqa: BLE001 - DecodeError, whose module depends on protobuf's own build
            self.unreadable += 1
            return None

    def _learn(self, between: bytes, tag: str) -> None:
        name = tag.encode("utf-8")
        if len(self._tags) < _MOST_TAGS and between == _one_simple_value(name):
            self._tags[between] = tag


def _step_of(data: bytes) -> tuple[int, int]:
    """Give where the summary begins in a record that starts with time and step, and the step; (0, 0) for any other."""
    if len(data) < 16 or data[0] != _WALL_TIME:  # noqa: PLR2004 - the shortest scalar has more
        return 0, 0
    if data[9] != _STEP:
        return 9, 0
    step = shift = 0
    for at in range(10, 10 + _LONGEST_VARINT):
        byte = data[at]
        step |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - a varint's last byte
            return at + 1, step
        shift += 7
    return 0, 0


def _one_simple_value(name: bytes) -> bytes:
    value = _VALUE + _varint(len(name)) + name + _SIMPLE_VALUE
    summary = _VALUE + _varint(len(value) + 4) + value
    return _SUMMARY + _varint(len(summary) + 4) + summary


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
