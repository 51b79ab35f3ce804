"""The board: one small mmapped file in which `tm` lays its newest readings for the agents, under a sequence number."""

from __future__ import annotations

import json
import struct
from typing import Any

from .json_text import parse

BOARD_BYTES = 1 << 16

# Odd while a write is going on, and the length of the JSON text that follows.
HEAD = struct.Struct("<II")


def write_board(target: Any, content: dict[str, Any]) -> bool:
    """Lay the content on a writable buffer of BOARD_BYTES; False when it does not fit. One writer only."""
    text = json.dumps(content, separators=(",", ":")).encode()
    if len(text) + HEAD.size > BOARD_BYTES:
        return False
    sequence = HEAD.unpack_from(target, 0)[0] | 1
    HEAD.pack_into(target, 0, sequence, 0)
    target[HEAD.size : HEAD.size + len(text)] = text
    HEAD.pack_into(target, 0, (sequence + 1) & 0xFFFFFFFE, len(text))
    return True


def read_board(source: Any) -> dict[str, Any] | None:
    """Read the newest whole content, or None while there is none or it is being written."""
    for _ in range(3):
        sequence, length = HEAD.unpack_from(source, 0)
        if sequence & 1 or not 0 < length <= BOARD_BYTES - HEAD.size:
            continue
        text = bytes(source[HEAD.size : HEAD.size + length])
        if HEAD.unpack_from(source, 0) == (sequence, length):
            try:
                content = parse(text)
            except ValueError:
                return None
            return content if isinstance(content, dict) else None
    return None
