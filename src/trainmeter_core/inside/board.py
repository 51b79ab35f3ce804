"""The agent's view of the board: the newest readings that `tm` laid there for publication."""

from __future__ import annotations

import math
import mmap
import os

from ..board_format import BOARD_BYTES, read_board

MYPY = False
if MYPY:
    from typing import Any, Dict


class Board:
    """Opens the board of the spool lazily; without one there are no readings from outside."""

    def __init__(self, spool: str) -> None:
        self._path = os.path.join(spool, "board")
        self._map: Any = None

    def series(self) -> Dict[str, float]:
        """Readings to publish, by series name without prefix; finite numbers only."""
        if self._map is None:
            try:
                with open(self._path, "rb") as file:
                    self._map = mmap.mmap(file.fileno(), BOARD_BYTES, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                # tm is gone, or has not laid it out yet.
                return {}
        content = read_board(self._map) or {}
        readings = content.get("series", {})
        return {
            name: value
            for name, value in readings.items()
            if isinstance(value, (int, float)) and math.isfinite(value)
        }
