"""What one `run.log` costs a training program with the tap and without, offline; each call is one of both by chance.

    python benchmarks/wandb_log.py [--calls N]

One process, one live run; the method as the client has it, and as the tap leaves it, are called in random turns, so
that other work on the machine meets both alike. The agent is the real one, and an optimizer step is counted before
each call, so that once a second a call carries a row; between calls the thread sleeps, and what the caches held is
gone as after a real step. Beside wall time stands the calling thread's processor time. The error is twice the standard
error of the difference of the medians.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmeter_core.inside.agent import Agent


class Optimizer:
    """As much of an optimizer as the agent looks at."""

    param_groups = ()


OPTIMIZER = Optimizer()


def trained(agent: Agent) -> None:
    """One optimizer step of one micro-batch."""
    agent.step.other_forward((8, 1024, 0))
    agent.backward_ran()
    agent.optimizer_enters(OPTIMIZER)
    agent.optimizer_leaves(OPTIMIZER)


def error_of_median(values: list[float]) -> float:
    """The standard error of a median, its spread taken from the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / math.sqrt(len(values))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--calls", type=int, default=10000)
    given = options.parse_args()
    directory = tempfile.mkdtemp(prefix="trainmeter-benchmark-")
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=directory, WANDB_X_DISABLE_STATS="true")
    import wandb.sdk.wandb_run as module

    import wandb
    from trainmeter_core.inside.agent import Agent
    from trainmeter_wandb import plugin

    agent = Agent(directory)
    methods = {"without": module.Run._log}
    plugin.install_tap(module, agent.publish())
    methods["with"] = module.Run._log
    run = wandb.init(project="benchmark")
    found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    order = random.Random(1)
    for step in range(given.calls):
        trained(agent)
        data = {"loss": 1.0 / (step + 1), "lr": 1e-3, "grad_norm": 0.5}
        name = "with" if order.random() < 0.5 else "without"
        log = methods[name]
        begin, busy = time.perf_counter_ns(), time.thread_time_ns()
        log(run, data)
        busy, end = time.thread_time_ns() - busy, time.perf_counter_ns()
        found[name].append(((end - begin) / 1e3, busy / 1e3))
        time.sleep(0.0005)
    run.finish()
    print(f"{'':20}{'median':>10}{'p90':>10}{'p99':>10}   microseconds of run.log, {given.calls} calls in all")
    for which, label in enumerate(("wall", "processor")):
        middle, errors = {}, []
        for name, spent in found.items():
            values = [pair[which] for pair in spent]
            cuts = statistics.quantiles(values, n=100)
            middle[name] = statistics.median(values)
            errors.append(error_of_median(values))
            print(f"{label + ', ' + name:20}{middle[name]:10.1f}{cuts[89]:10.1f}{cuts[98]:10.1f}")
        cost = middle["with"] - middle["without"]
        print(f"cost of the tap: {cost:.1f} +- {2 * math.hypot(*errors):.1f} us median (target: 30)")


if __name__ == "__main__":
    main()
