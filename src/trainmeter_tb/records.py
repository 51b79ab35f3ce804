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


crc32c: Callable[[bytes], int]
try:
    from google_crc32c import value as crc32c
except ImportError:  # a trainer need not have it, and reads little
    crc32c = _plain_crc32c()


def masked(data: bytes) -> int:
    """Give the masked CRC32C of some bytes, as event files store it."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    """Give the record that holds these bytes."""
    length = _LENGTH.pack(len(data))
    return length + _CRC.pack(masked(length)) + data + _CRC.pack(masked(data))


class Damage:
    """What a reader could not use: records with a wrong checksum, bytes skipped to find the next one, a torn end.

    `read_to` is the offset after the last whole record, from where a growing file can be read on.
    """

    __slots__ = ("corrupt", "read_to", "skipped_bytes", "torn")

    def __init__(self) -> None:
        self.corrupt = 0
        self.skipped_bytes = 0
        self.torn = False
        self.read_to = 0


def records(file: BinaryIO, damage: Damage) -> Iterator[bytes]:
    """Give the contents of all whole records from the file's position on, in constant memory.

    A record with wrong bytes is left out and counted; after a damaged length the next whole record is searched for.
    """
    start = damage.read_to = file.tell()
    buffer = b""
    at = 0
    crc = crc32c
    unpack = _HEAD.unpack_from
    while True:
        ready = len(buffer) - at
        needed = _HEAD_SIZE
        if ready >= _HEAD_SIZE:
            length, length_crc = unpack(buffer, at)
            head = crc(buffer[at : at + 8])
            if (((head >> 15) | (head << 17)) + 0xA282EAD8) & 0xFFFFFFFF != length_crc or length > _LONGEST:
                damage.corrupt += 1
                found = _next_record(buffer, at + 1)
                while found < 0:
                    # Keep what could be the start of a record that the next chunk completes.
                    kept = max(len(buffer) - 11, at + 1)
                    more = file.read(_CHUNK)
                    damage.skipped_bytes += kept - at
                    start += kept
                    buffer, at = buffer[kept:] + more, 0
                    if not more:
                        damage.skipped_bytes += len(buffer)
                        damage.read_to = start + len(buffer)
                        return
                    found = _next_record(buffer, 0)
                damage.skipped_bytes += found - at
                at = found
                damage.read_to = start + at
                continue
            needed = length + 16
        if ready < needed:
            start += at
            more = file.read(max(_CHUNK, needed - ready))
            buffer, at = buffer[at:] + more, 0
            if not more:
                damage.torn = bool(buffer)
                return
            continue
        end = at + 12 + length
        data = buffer[at + 12 : end]
        stored = _CRC.unpack_from(buffer, end)[0]
        at = end + 4
        damage.read_to = start + at
        body = crc(data)
        if (((body >> 15) | (body << 17)) + 0xA282EAD8) & 0xFFFFFFFF != stored:
            damage.corrupt += 1
            continue
        yield data


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
