"""The project's own stand-in for the W&B backend."""

from .backend import Backend
from .operations import ENTITY
from .state import Run

__all__ = ["ENTITY", "Backend", "Run"]
