"""Dense peaks, clocks and bandwidth of devices, with a source per row."""
