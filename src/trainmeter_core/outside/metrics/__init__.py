"""The newest readings as Prometheus text on a loopback port, for a tracker's own sampler and for Prometheus."""

from __future__ import annotations

from .server import MetricsServer

__all__ = ["MetricsServer"]
