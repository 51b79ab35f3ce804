"""Imports pluggy: inside a trainer a private copy, so that the user's own pluggy stays theirs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# The agent's loader registers tm's pluggy under this name; a user's own `import pluggy` never meets it.
PRIVATE_NAME = "_trainmeter_pluggy"

if TYPE_CHECKING:
    import pluggy
elif PRIVATE_NAME in sys.modules:
    pluggy = sys.modules[PRIVATE_NAME]
else:
    import pluggy

__all__ = ["PRIVATE_NAME", "pluggy"]
