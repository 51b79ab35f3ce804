"""What runs in tm's own process: launching, sampling, draining, serving."""
