"""Follows event files that no Python wrote, while they grow: what is new in them, a little at a time.

Only the checksum of a record's length is checked, not that of its bytes: the trainer waits while we read.
"""

from __future__ import annotations

import os
import struct
from typing import Iterator

from .records import masked

_HEAD = struct.Struct("<QI")
_CRC_SIZE = 4

# What a call looks at in one file; a record beyond the third size is an image, a graph or a histogram: passed over.
_MOST_BYTES = 1 << 20
_MOST_RECORDS = 2000
_LARGEST = 4096


class Tail:
    """The event files of one directory, from where they stand when this is made."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lost: set[str] = set()
        self._read_to = {path: os.path.getsize(path) for path in self._files()}

    def new(self) -> Iterator[bytes]:
        """Give the small records that were completed since; what is too much for now comes with the next call.

        A file is left alone from its first damaged length on: the search for what follows would hold the trainer up.
        """
        for path in self._files():
            try:
                yield from self._records(path)
            except OSError:  # removed, or not ours to read
                continue

    def _files(self) -> list[str]:
        try:
            names = os.listdir(self._directory)
        except OSError:  # not made yet
            return []
        paths = (os.path.join(self._directory, name) for name in sorted(names) if "tfevents" in name)
        return [path for path in paths if path not in self._lost]

    def _records(self, path: str) -> Iterator[bytes]:
        at = begin = self._read_to.get(path, 0)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for _ in range(_MOST_RECORDS):
                file.seek(at)
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size or at - begin > _MOST_BYTES:
                    return
                length, crc = _HEAD.unpack(head)
                end = at + _HEAD.size + length + _CRC_SIZE
                if masked(head[:8]) != crc:
                    self._lost.add(path)
                    return
                if end > size:  # half a record: its rest is still to come
                    return
                data = file.read(length) if length <= _LARGEST else b""
                at = self._read_to[path] = end
                if data:
                    yield data
