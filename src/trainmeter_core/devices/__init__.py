"""Dense peaks, clocks and bandwidth of devices, with a source per row."""

from __future__ import annotations

from trainmeter_core.devices.lookup import by_short_name, lookup
from trainmeter_core.devices.mig import mig_slice
from trainmeter_core.devices.table import Device, Peak, devices_by_name

__all__ = ["Device", "Peak", "by_short_name", "devices_by_name", "lookup", "mig_slice"]
