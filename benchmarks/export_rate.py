"""How fast a million-step run is exported, and what memory that takes.

Run: python benchmarks/export_rate.py. Target: memory does not grow with the run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from passport_read import write

from trainmeter_core.outside.replay import rows

EXPORT = """
import resource, sys, time
from pathlib import Path
from trainmeter_core.outside.parts import write
from trainmeter_core.outside.replay import RunRows
from trainmeter_core.outside.table_files import FORMS
start = time.perf_counter()
rows = RunRows(Path(sys.argv[1]))
if sys.argv[2] == "tensorboard":
    from trainmeter_tb.export import export
    from trainmeter_core.passport.build import build
    from trainmeter_core.runlog.read import read_run
    export(build(read_run(sys.argv[1])), rows, {"directory": sys.argv[1] + "/tb"})
else:
    write(FORMS[sys.argv[2]], rows, Path(sys.argv[1]) / "out", {"run": "bench"})
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--per-record", type=int, default=5)
    options = parser.parse_args()
    for steps in options.steps:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), steps, options.per_record)
            count = sum(1 for _ in rows(Path(name)))
            for form in ("csv", "parquet", "openmetrics", "tensorboard"):
                words = [sys.executable, "-c", EXPORT, name, form]
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                seconds, memory = (float(word) for word in done.stdout.split())
                rate = f"{count / seconds:,.0f} rows/s"
                print(f"{steps:,} steps, {form}: {count:,.0f} rows in {seconds:.1f} s ({rate}), {memory:.0f} MB")


if __name__ == "__main__":
    main()
