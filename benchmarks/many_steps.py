"""Ten million steps through the ring, the drain and the run log to a passport: what grows, and whether one is lost.

    python benchmarks/many_steps.py [STEPS]

Steps are written as an agent writes them and drained as `tm` drains them, as fast as both go, in one process. Batches
change their shape now and then. Each tenth tells the resident memory and the bytes of the log.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil

from trainmeter_core.inside.ring import Ring
from trainmeter_core.outside.drain import Drain
from trainmeter_core.passport.build import build
from trainmeter_core.ring_format import FLAG_STARTUP, STEP_RECORD, Identity
from trainmeter_core.runlog.read import RunReader
from trainmeter_core.runlog.write import RunWriter

STEPS_A_LOOK = 8000
LENGTHS = (128, 256, 512, 1024)

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000


def main() -> None:
    spool = Path(tempfile.mkdtemp(prefix="many-steps-"))
    ring = Ring(str(spool / "r0-1.ring"), Identity(1, 0, 0, 1, 1.7e9, 0.0, 0.0))
    writer = RunWriter.create("train.py", ["train.py"], runs=spool)
    drain = Drain(str(spool), lambda record: writer.append_many([record]))
    tokens = 0
    seconds = (0.001, 0.0008, 0.0001, 0.0, 0.0, 0.0)
    began = time.monotonic()
    for step in range(1, steps + 1):
        length = LENGTHS[step // 1000 % len(LENGTHS)]
        tokens += 4 * length
        flags = FLAG_STARTUP if step == 1 else 0
        ring.step(
            STEP_RECORD, flags, 1, step, step / 1000, 4 * length, 4, length, 0, seconds, (step, 0, tokens, 4 * step, 0)
        )
        if step % STEPS_A_LOOK == 0:
            drain.poll()
        if step % (steps // 10) == 0:
            memory = psutil.Process().memory_info().rss / 1e6
            log = (writer.directory / "log.jsonl").stat().st_size / 1e6
            print(
                f"{step:>10} steps  {memory:6.1f} MB resident  {log:6.2f} MB of log  {time.monotonic() - began:5.0f} s"
            )
    drain.finish()
    drain.close()
    writer.close()
    start = time.monotonic()
    data = build(RunReader(writer.directory).finish())["data"]
    told = data["steps"]["value"], data["tokens"]["value"]
    print(f"passport after {time.monotonic() - start:.2f} s: {told[0]} steps, {told[1]} tokens")
    if told != (steps, tokens):
        sys.exit(f"lost: {steps} steps and {tokens} tokens were made")


main()
