"""How fast a million-step run is exported, and what memory that takes.

Run: python benchmarks/export_rate.py. Target: memory does not grow with the run.

Measured on two cores of a shared machine, a million steps: CSV 3,600 rows/s and 19 MB, Parquet 4,000 rows/s and 183 MB
(162 MB at a tenth of the steps: a row group and pyarrow itself).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from passport_read import write

EXPORT = """
import resource, sys, time
from pathlib import Path
from trainmeter_core.outside.replay import rows
from trainmeter_core.outside.table_files import WRITERS
start = time.perf_counter()
count = WRITERS[sys.argv[2]](rows(Path(sys.argv[1])), Path(sys.argv[1]) / "out", {"run": "bench"})
print(count, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--per-record", type=int, default=5)
    options = parser.parse_args()
    for steps in options.steps:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), steps, options.per_record)
            for form in ("csv", "parquet", "openmetrics"):
                words = [sys.executable, "-c", EXPORT, name, form]
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                count, seconds, memory = (float(word) for word in done.stdout.split())
                rate = f"{count / seconds:,.0f} rows/s"
                print(f"{steps:,} steps, {form}: {count:,.0f} rows in {seconds:.1f} s ({rate}), {memory:.0f} MB")


if __name__ == "__main__":
    main()
