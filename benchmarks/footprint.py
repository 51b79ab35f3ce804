"""What tm costs beside the steps: an interpreter's start with the agent, and tm's own processor time and memory.

python benchmarks/footprint.py [--starts 80] [--seconds 20]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from trainmeter_core.outside.environment import AGENT_DIRECTORY

LOOP = Path(__file__).with_name("overhead_loop.py")


def start_ms(env: dict[str, str]) -> float:
    """Milliseconds from the start of an interpreter that does nothing to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=env, check=True)
    return (time.perf_counter() - start) * 1e3


def interpreter_start(starts: int) -> None:
    """Compare starts with and without the agent, taken in turns."""
    bare = dict(os.environ)
    with tempfile.TemporaryDirectory() as spool:
        agent = {**bare, "PYTHONPATH": AGENT_DIRECTORY, "TRAINMETER_SPOOL": spool, "TRAINMETER_PLUGINS": ""}
        pairs = [(start_ms(bare), start_ms(agent)) for _ in range(starts)]
    without, with_agent = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"interpreter start: bare {without:.2f} ms, with the agent {with_agent:.2f} ms, {with_agent - without:+.2f} ms"
    )


def own_cost(seconds: float) -> None:
    """Run the benchmark loop under tm and watch tm itself."""
    with tempfile.TemporaryDirectory() as home, tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = [sys.executable, "-m", "trainmeter_core", "--quiet", "--python", sys.executable]
        child = subprocess.Popen(
            [*words, str(LOOP), out.name, "200000", "16", "1", "1"], env={**os.environ, "TRAINMETER_HOME": home}
        )
        process = psutil.Process(child.pid)
        time.sleep(8)
        before, start = process.cpu_times(), time.monotonic()
        rss = 0
        while time.monotonic() - start < seconds:
            time.sleep(0.5)
            rss = max(rss, process.memory_info().rss)
        after, spent = process.cpu_times(), time.monotonic() - start
        share = 100 * (after.user + after.system - before.user - before.system) / spent
        child.terminate()
        child.wait()
    print(f"tm itself: {share:.2f} % of a core, {rss / 1e6:.1f} MB resident, over {spent:.0f} s of 1 ms steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    interpreter_start(options.starts)
    own_cost(options.seconds)


if __name__ == "__main__":
    main()
