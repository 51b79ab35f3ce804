"""The agent's view of the board: the newest readings that `tm` laid there for publication."""

from __future__ import annotations

import math
import mmap
import os

from ..board_format import BOARD_BYTES, read_board
from ..plain_files import opener

MYPY = False
if MYPY:
    from typing import Any


class Board:
    """Opens the board of the spool lazily; without one there are no readings from outside."""

    def __init__(self, spool: str) -> None:
        self._path = os.path.join(spool, "board")
        self._map: Any = None

    def content(self) -> dict[str, Any]:
        """Everything that lies there; empty without a board, or while it is being written."""
        if self._map is None:
            try:
                with open(self._path, "rb", opener=opener) as file:
                    self._map = mmap.mmap(file.fileno(), BOARD_BYTES, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                # tm is gone, or has not laid it out yet.
                return {}
        return read_board(self._map) or {}


def readings_of(content: dict[str, Any]) -> dict[str, float]:
    """Readings to publish, by series name without prefix; finite numbers only."""
    return {
        name: value
        for name, value in content.get("series", {}).items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def log_records(content: dict[str, Any]) -> list[dict[str, Any]]:
    """What the run log holds of the GPUs by now, summed up in two of its records."""
    records = [{"type": "hardware", **content["hardware"]}] if content.get("hardware") else []
    return records + ([{"type": "gpu", "gpus": content["gpu"]}] if content.get("gpu") else [])
