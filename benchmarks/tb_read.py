"""How fast an event file is read, and what memory that takes: a million scalars in ten tags.

Run: python benchmarks/tb_read.py. Targets: at most 3 s and 40 MB.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time

from tensorboard.compat.proto import event_pb2

from trainmeter_tb.read import FoundRun, scalars
from trainmeter_tb.records import framed


def write(path: str, count: int, tags: int) -> None:
    with open(path, "wb") as file:
        for number in range(count):
            event = event_pb2.Event(step=number // tags, wall_time=1.7e9 + number)
            event.summary.value.add(tag=f"train/metric{number % tags}", simple_value=number * 0.5)
            file.write(framed(event.SerializeToString()))


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scalars", type=int, default=1_000_000)
    parser.add_argument("--tags", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "events.out.tfevents.1")
        write(path, options.scalars, options.tags)
        size = os.path.getsize(path) / 1e6
        for _ in range(options.repeat):
            run = FoundRun()
            before, started, cpu = resident_mb(), time.perf_counter(), time.process_time()
            count = sum(1 for _scalar in scalars(path, run))
            assert count == options.scalars, "every scalar must be read"
            assert not run.damaged
            print(
                f"{count:,} scalars, {size:.0f} MB: {time.perf_counter() - started:.2f} s "
                f"({time.process_time() - cpu:.2f} s of CPU), {resident_mb() - before:+.1f} MB"
            )
    print(f"largest resident size: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
