"""What tm can see on this node and inside the trainer's Python, each line with its reason and what to do."""

from __future__ import annotations

from .examine import examine
from .line import Line, State

__all__ = ["Line", "State", "examine"]
