"""The node a run trains on: processors, memory, disks, network, sensors, limits; read from /proc and /sys."""

from __future__ import annotations

from .sampler import NodeSampler
from .series import SERIES, NodeSeries, series_of

__all__ = ["SERIES", "NodeSampler", "NodeSeries", "series_of"]
