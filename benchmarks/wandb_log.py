"""What one `run.log` costs a training program with the tap and without, offline, medians of interleaved blocks.

    python benchmarks/wandb_log.py [--calls N] [--blocks N]

Both kinds of block run in one process against one live run; the tap is taken out and put in again between blocks. A
step is counted before each call, so that once a second a call carries a row, as in training. Guards and the clock of
the time shares are the real ones. Beside wall time stands the calling thread's processor time, which other work on the
machine does not lengthen.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time


def block(run, agent, calls: int) -> list[tuple[float, float]]:
    spent = []
    for step in range(calls):
        agent.step()
        data = {"loss": 1.0 / (step + 1), "lr": 1e-3, "grad_norm": 0.5}
        begin, busy = time.perf_counter_ns(), time.thread_time_ns()
        run.log(data)
        busy, end = time.thread_time_ns() - busy, time.perf_counter_ns()
        spent.append(((end - begin) / 1e3, busy / 1e3))
        time.sleep(0.0005)
    return spent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=300)
    options.add_argument("--blocks", type=int, default=20)
    given = options.parse_args()
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "wandb"))
    directory = tempfile.mkdtemp(prefix="trainmeter-benchmark-")
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=directory, WANDB_X_DISABLE_STATS="true")
    import wandb.sdk.wandb_run as module
    from counting_agent import Agent

    import wandb
    from trainmeter_core.inside.guard import site
    from trainmeter_core.inside.publishing import _LogCall
    from trainmeter_core.inside.span_clock import SpanClock
    from trainmeter_wandb import plugin

    agent = Agent(every=1.0)
    clock = SpanClock(time.monotonic())
    agent.guard, agent.logging = site, lambda: _LogCall(clock)
    undo = plugin.install_tap(module, agent)
    run = wandb.init(project="benchmark")
    block(run, agent, given.calls)
    found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    for _ in range(given.blocks):
        undo()
        found["without"] += block(run, agent, given.calls)
        undo = plugin.install_tap(module, agent)
        found["with"] += block(run, agent, given.calls)
    run.finish()
    print(f"{'':20}{'median':>10}{'p90':>10}{'p99':>10}   microseconds of run.log, {len(found['with'])} calls each")
    for which, label in enumerate(("wall", "processor")):
        middle = {}
        for name, spent in found.items():
            values = [pair[which] for pair in spent]
            cuts = statistics.quantiles(values, n=100)
            middle[name] = statistics.median(values)
            print(f"{label + ', ' + name:20}{middle[name]:10.1f}{cuts[89]:10.1f}{cuts[98]:10.1f}")
        print(f"cost of the tap: {middle['with'] - middle['without']:.1f} us median (target: 30)")


if __name__ == "__main__":
    main()
