"""How long a passport of a million optimizer steps takes, and what memory, in the three ways that a log is found.

Run: python benchmarks/passport_read.py. Targets: at most 2 s and 100 MB for a run that tm watched.

"killed": tm was killed, and its snapshot is a minute old. "log alone": another version's run, or a copy without its
snapshot; the first reader goes through all of it and leaves a snapshot for the next ("again"). A run that ended has its
passport in a file, and no log is read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trainmeter_core.runlog.read import RunReader
from trainmeter_core.runlog.snapshot import SNAPSHOT_FILE

READ = """
import resource, sys, time
start = time.perf_counter()
from trainmeter_core.passport.build import build
from trainmeter_core.runlog.read import read_run
loaded = time.perf_counter()
passport = build(read_run(sys.argv[1]))
done = time.perf_counter()
print(passport["data"]["steps"]["value"], loaded - start, done - loaded,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write(directory: Path, steps: int, per_record: int) -> None:
    """A log as the drain writes it: blocks of steps, the node's readings once for each two of them."""
    readings = {f"node/reading_{number}": number * 1.5 for number in range(60)}
    from trainmeter_core.runlog.write import line_of

    (directory / "run.json").write_text('{"run_id":"bench","script":"train.py","started":1.7e9}\n')
    seconds = {"step": 0.4, "data_wait": 0.01, "checkpoint": 0.0, "eval": 0.0, "logging": 0.01, "other": 0.02}
    with (directory / "log.jsonl").open("wb") as log:
        for number, first in enumerate(range(1, steps + 1, per_record)):
            t = 1.7e9 + number * 0.5
            block = {
                "type": "steps", "t": t, "rank": 0, "pid": 7, "first": first, "last": first + per_record - 1,
                "n": per_record, "skipped": 0, "tokens": 4096 * per_record, "samples": 4 * per_record,
                "micro_batches": per_record, "wall_s": 0.44, "time": seconds, "batches": [[4, 1024, 0, per_record]],
                "step_time_s": [0.1, 0.2], "startup": False,
            }  # fmt: skip
            log.write(line_of(block))
            if number % 2 == 0:
                log.write(line_of({"type": "node", "t": t, "readings": readings}))


def measure(directory: Path) -> list[float]:
    done = subprocess.run([sys.executable, "-c", READ, str(directory)], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def a_minute_ago(directory: Path) -> None:
    """Leave the snapshot that tm has written a minute before the last record: 120 blocks and 60 readings."""
    with (directory / "log.jsonl").open("r+b") as log:
        log.seek(-(1 << 20), os.SEEK_END)
        lines = log.read().splitlines(keepends=True)
        minute = b"".join(lines[-180:])
        log.truncate(log.tell() - len(minute))
        reader = RunReader(directory)
        reader.read_on()
        reader.save()
        log.seek(0, os.SEEK_END)
        log.write(minute)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--per-record", type=int, default=5, help="steps in half a second")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write(directory, options.steps, options.per_record)
        size = os.path.getsize(directory / "log.jsonl") / 1e6
        print(f"{options.steps:,} steps, {size:.0f} MB of log")
        for what in ("log alone", "again", "killed"):
            for _ in range(options.repeat):
                if what == "log alone":
                    (directory / SNAPSHOT_FILE).unlink(missing_ok=True)
                elif what == "killed":
                    a_minute_ago(directory)
                steps, loading, reading, memory = measure(directory)
                print(f"{what}: {steps:,.0f} steps, imports {loading:.2f} s, {reading:.2f} s, {memory:.0f} MB")
        reader = RunReader(directory)
        start = time.perf_counter()
        reader.save()
        print(f"snapshot written in {1000 * (time.perf_counter() - start):.1f} ms")


if __name__ == "__main__":
    main()
