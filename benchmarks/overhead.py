"""Microseconds that tm adds to an optimizer step: the same loop with and without it, in interleaved processes.

    python benchmarks/overhead.py [--pairs 8] [--steps 1500] [--width 16] [--layers 1] [--micro-batches 1]
                                  [--tracker none|tensorboard|wandb|mlflow]

Each process trains a small GPT for a fixed number of steps and prints its per-step times; the first 100 steps are
dropped. A pair is one bare run against one under tm; the figure is the median over the pairs of the difference between
the two medians. The spread of bare against bare says what this machine can resolve.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WARM_UP = 100
LOOP = Path(__file__).with_name("overhead_loop.py")


def run(words: list[str], home: str, loop: list[str]) -> list[float]:
    """Run the loop and give its step times in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "times.json")
        subprocess.run(
            [*words, str(LOOP), str(out), *loop],
            check=True,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "TRAINMETER_HOME": home},
        )
        times: list[float] = json.loads(out.read_text())["us"]
    return times[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    for name, default in (("steps", 1500), ("width", 16), ("layers", 1), ("micro-batches", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--tracker", choices=("none", "tensorboard", "wandb", "mlflow"), default="none")
    options = parser.parse_args()
    loop = [options.tracker, str(options.steps), str(options.width), str(options.layers), str(options.micro_batches)]
    bare_words = [sys.executable]
    tm_words = [sys.executable, "-m", "trainmeter_core", "--quiet", "--python", sys.executable]
    with tempfile.TemporaryDirectory() as home:
        bare_medians, differences, floor, fifth = [], [], [], []
        previous = None
        for pair in range(options.pairs):
            order = [bare_words, tm_words] if pair % 2 == 0 else [tm_words, bare_words]
            results = {words is tm_words: run(words, home, loop) for words in order}
            bare, under = statistics.median(results[False]), statistics.median(results[True])
            bare_medians.append(bare)
            differences.append(under - bare)
            fifth.append(statistics.quantiles(results[True], n=20)[0] - statistics.quantiles(results[False], n=20)[0])
            if previous is not None:
                floor.append(bare - previous)
            previous = bare
            print(f"pair {pair + 1}: bare {bare:.1f} us, under tm {under:.1f} us, difference {under - bare:+.1f} us")
    print(f"bare step, median of medians    {statistics.median(bare_medians):9.1f} us")
    print(f"tm adds, median over pairs      {statistics.median(differences):+9.1f} us a step")
    print(f"tm adds, 5th percentile steps   {statistics.median(fifth):+9.1f} us a step")
    if floor:
        print(f"bare against the bare before it {min(floor):+.1f} .. {max(floor):+.1f} us (what this machine resolves)")


if __name__ == "__main__":
    main()
