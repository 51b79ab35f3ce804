"""Reads a .wandb file, finished or still being written, record by record in constant memory; never writes.

A 7-byte header, then the blocks of a LevelDB log: 32 KiB, the header counted in the first one; in them chunks of
checksum u32, length u16, kind u8 and payload. The payloads of a full chunk, or of first, middle and last joined, are
one protobuf Record. A torn tail ends the reading; a chunk whose checksum is wrong is skipped with its record.
"""

from __future__ import annotations

import struct
import zlib
from typing import IO, Any, Iterator

_MARK = b":W&B"
_HEADER = 7
_BLOCK = 32768
_CHUNK = struct.Struct("<IHB")
_PADDING, _FULL, _FIRST, _MIDDLE, _LAST = range(5)
_LARGEST = 256 << 20

_KIND_CRC = [zlib.crc32(bytes([kind])) for kind in range(5)]


def records(path: str) -> Iterator[Any]:
    """Give each record of the file as the client's own Record message.

    Raises ValueError with one line when it is no such file, ImportError without the client.
    """
    from wandb.proto import wandb_internal_pb2

    with open(path, "rb") as file:
        if file.read(_HEADER)[: len(_MARK)] != _MARK:
            raise ValueError(path + " is not a .wandb file")
        for payload in _payloads(file):
            record = wandb_internal_pb2.Record()
            try:
                record.ParseFromString(payload)
            except Exception:  # noqa: BLE001, S112 - protobuf's own DecodeError, whose class depends on its build
                continue
            yield record


def _payloads(file: IO[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for kind, body in _chunks(file):
        if kind in (_FULL, _FIRST):
            parts, size = [], 0
        elif not parts:
            continue  # its beginning was damaged
        if body is None or size + len(body) > _LARGEST:
            parts, size = [], 0
            continue
        parts.append(body)
        size += len(body)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts, size = [], 0


def _chunks(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Each chunk's kind and payload; None for a payload that is not what its checksum says."""
    at = _HEADER
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _CHUNK.size:
            file.seek(left, 1)
            at += left
            continue
        head = file.read(_CHUNK.size)
        if len(head) < _CHUNK.size:
            return
        crc, length, kind = _CHUNK.unpack(head)
        if kind == _PADDING or kind > _LAST:
            file.seek(left - _CHUNK.size, 1)
            at += left
            continue
        body = file.read(length)
        if len(body) < length:
            return
        at += _CHUNK.size + length
        yield kind, body if zlib.crc32(body, _KIND_CRC[kind]) == crc else None
