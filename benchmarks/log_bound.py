"""What a log holds after so many hours: the records of one real minute of it, written again and again, as `tm` would.

    python benchmarks/log_bound.py LOG.jsonl [HOURS]

Each doubling of the hours tells the bytes of the log, the highest so far, the width of its oldest windows, the seconds
of a processor that merging took, and the steps and tokens of the passport beside those that were written.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainmeter_core.runlog.bound import LogBound
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter

REPEATED = ("steps", "node", "gpu", "losses", "span")


def main() -> None:
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_bytes().splitlines()]
    hours = float(sys.argv[2]) if len(sys.argv) > 2 else 64.0
    minute: list[dict[str, Any]] = [line for line in lines if line["type"] in REPEATED and not line.get("startup")]
    first, last = minute[0]["t"], max(line["t"] for line in minute)
    writer = RunWriter.create("train.py", ["train.py"], runs=Path(tempfile.mkdtemp(prefix="log-bound-")), started=first)
    writer.append_many(
        [line for line in lines if line["type"] in ("process", "hardware", "model") or line.get("startup")]
    )
    bound = LogBound(writer)
    steps = tokens = written = highest = 0
    spent, due = 0.0, 1.0
    while written / 3600 < hours:
        again = [{**line, "t": line["t"] + written} for line in minute]
        writer.append_many(again)
        steps += sum(line.get("n", 0) for line in again)
        tokens += sum(line.get("tokens") or 0 for line in again)
        written += last - first
        highest = max(highest, writer.size)
        start = time.process_time()
        while bound.ready() or bound.merging:
            bound.take() if bound.ready() else time.sleep(0.01)
        spent += time.process_time() - start
        if written / 3600 >= due:
            due *= 2
            record = read_run(writer.directory)
            told = record.rank(0).steps, record.rank(0).tokens
            print(
                f"{written / 3600:7.1f} h {writer.size / 1e6:6.1f} MB, at most {highest / 1e6:6.1f} MB, windows of "
                f"{bound.every_s:g} s, {spent:6.1f} s, {told} of {(steps, tokens)}", flush=True,
            )  # fmt: skip


main()
