"""trainmeter: where training FLOPs go and how well GPUs are used, published into the tracker already in use."""

from .emitting import emit
from .version import __version__

__all__ = ["__version__", "emit"]
