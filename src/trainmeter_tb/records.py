"""The framing of an event file: length, checksum, bytes, checksum; a torn end and damaged records are survived.

A record is ``uint64 length, uint32 masked CRC32C of the length, the bytes, uint32 masked CRC32C of the bytes``, all
little-endian (TensorFlow's TFRecord).
"""

from __future__ import annotations

import mmap
import struct
from typing import BinaryIO, Callable, Iterator

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size
_MOST_LENGTHS = 4096
_CHUNK = 1 << 20

# A length with a right checksum beyond this is damage by chance: protobuf itself ends at 2 GiB.
_LONGEST = (1 << 31) - 1

# The upper half of any real length, which is where the search for the next whole record looks.
_UPPER_HALF = b"\0\0\0\0"


def _plain_crc32c() -> Callable[[bytes], int]:
    table: list[int] = []
    for byte in range(256):
        entry = byte
        for _bit in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        table.append(entry)

    def crc32c(data: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

    return crc32c


def _best_crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError:  # a trainer need not have it, and reads little
        return _plain_crc32c()
    fast: Callable[[bytes], int] = value
    return fast


crc32c = _best_crc32c()


def masked(data: bytes) -> int:
    """Give the masked CRC32C of some bytes, as event files store it."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    """Give the record that holds these bytes."""
    length = _LENGTH.pack(len(data))
    return length + _CRC.pack(masked(length)) + data + _CRC.pack(masked(data))


class RecordReader:
    """Gives the contents of the whole records of a file, in constant memory, and counts what it cannot use.

    `corrupt` counts damaged places: records whose bytes do not fit their checksum are left out; after a damaged length
    the next whole record is searched for, `skipped_bytes` on. `torn` tells that the end is half a record, as in a file
    that is being written; `read_to` is the offset up to which all was used, from where such a file can be read on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = b""
        self._start = self.read_to = file.tell()
        self.corrupt = 0
        self.skipped_bytes = 0
        self.torn = False

    def __iter__(self) -> Iterator[bytes]:
        """Read from where the file stands to its end."""
        crc, head, stored = crc32c, _HEAD.unpack_from, _CRC.unpack_from
        right: dict[int, int] = {}  # lengths repeat, so their checksums are kept
        buffer, at = self._buffer, 0
        while True:
            end = at + _HEAD_SIZE
            if end <= len(buffer):
                length, length_crc = head(buffer, at)
                if right.get(length) != length_crc:
                    if length > _LONGEST or masked(buffer[at : at + 8]) != length_crc:
                        at = self._pass_damage(at)
                        buffer = self._buffer
                        continue
                    if len(right) < _MOST_LENGTHS:
                        right[length] = length_crc
                end += length + 4
                if end <= len(buffer):
                    data = buffer[at + _HEAD_SIZE : end - 4]
                    at = end
                    self.read_to = self._start + at
                    body = crc(data)
                    if (((body >> 15) | (body << 17)) + 0xA282EAD8) & 0xFFFFFFFF == stored(buffer, end - 4)[0]:
                        yield data
                    else:
                        self.corrupt += 1
                    continue
            if not self._fill(at, end - len(buffer)):
                self.torn = bool(self._buffer)
                return
            buffer, at = self._buffer, 0

    def _fill(self, at: int, missing: int) -> bool:
        """Drop what lies before `at` and read on; False at the end of the file."""
        more = self._file.read(max(_CHUNK, missing))
        self._start += at
        self._buffer = self._buffer[at:] + more
        return bool(more)

    def _pass_damage(self, at: int) -> int:
        """Go on from a damaged length to where the next whole record begins, or to the end of the file."""
        self.corrupt += 1
        begin = self._start + at
        found = _next_record(self._buffer, at + 1)
        while found < 0:
            # The last bytes may be the start of a record that the next chunk completes.
            if not self._fill(max(len(self._buffer) - _HEAD_SIZE + 1, at), _CHUNK):
                found = len(self._buffer)
                break
            at = 0
            found = _next_record(self._buffer, 0)
        self.read_to = self._start + found
        self.skipped_bytes += self.read_to - begin
        return found


def _next_record(buffer: bytes, at: int) -> int:
    """Give where a length with a right checksum begins at or after `at`, or -1."""
    zeros = buffer.find(_UPPER_HALF, at + 4)
    while zeros >= 0 and zeros + 8 <= len(buffer):
        head = zeros - 4
        if masked(buffer[head : head + 8]) == _CRC.unpack_from(buffer, head + 8)[0]:
            return head
        zeros = buffer.find(_UPPER_HALF, zeros + 1)
    return -1


def last_record_with(path: str, needle: bytes, limit: int) -> bytes | None:
    """Give the last whole record that holds some bytes within the first `limit` bytes of a file; None for none.

    Steps from length to length, and checks only the record that it gives; so it costs little in a large file.
    """
    with open(path, "rb") as file:
        try:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return None
        with view:
            end = min(len(view), limit)
            found = view.rfind(needle, 0, end)
            at = 0
            while 0 <= at <= found:
                length, _crc = _HEAD.unpack_from(view, at)
                after = at + length + 16
                if after > len(view):
                    return None
                if found < after:
                    data = view[at + 12 : at + 12 + length]
                    return data if masked(data) == _CRC.unpack_from(view, after - 4)[0] else None
                at = after
    return None
