"""What tm adds to a step while the MLflow server is fine, slow, failing or gone: one loop, bare and under tm, in turns.

    python benchmarks/mlflow_faults.py [--pairs 5] [--steps 400] [--step-ms 20] [--moods fine,slow,...]

The mood "full" mounts a small tmpfs for the run directory: it wants root.

The loop makes a small real step, waits for a known time as for a device, and logs without waiting for the answer, as
the Trainer of transformers does. A real server stands behind a proxy, whose mood changes after the first steps and is
lifted after the last one; so the loop is timed under the fault, and the run can end. Each pair of processes gives one
difference of the mean step and one of the median step; bare against the bare of the pair before says what this machine
can resolve. Processor time of the training thread, and of all other threads of its process, is told beside it: it does
not depend on what else runs here. At the end of each mood it is checked that the last row of every run under tm is in
MLflow.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import mlflow
from tests.e2e.mlflow_server import RealServer
from tests.mlflow.moody_proxy import MoodyProxy

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 25
TM = [sys.executable, "-m", "trainmeter_core"]

SCRIPT = """
    import json, sys, time
    import torch
    import mlflow
    torch.set_num_threads(1)
    steps, wait_s, warm_up = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 64, (4, 16))
    took = []
    mlflow.set_experiment("faults")
    with mlflow.start_run() as run:
        for step in range(steps):
            if step == warm_up:
                print("warm", run.info.run_id, flush=True)
                own, all_of_it = time.thread_time(), time.process_time()
            begun = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(tokens).view(-1, 64), tokens.view(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(wait_s)
            mlflow.log_metric("loss", loss.item(), step=step, synchronous=False)
            took.append(time.perf_counter() - begun)
        own, all_of_it = time.thread_time() - own, time.process_time() - all_of_it
        print(json.dumps([run.info.run_id, took[warm_up:], own, all_of_it - own]), flush=True)
        sys.stdin.readline()
"""


TAKEN: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "5th percentile of a": lambda took: statistics.quantiles(took, n=20)[0],
}
"""What a run's steps come to. On a busy machine only the last one says much: its steps were not disturbed."""


class Told(NamedTuple):
    """What a loop said of itself."""

    run_id: str
    took_s: list[float]
    """Of each step."""
    own_s: float
    """Processor time of the training thread."""
    others_s: float
    """Of all other threads of its process: MLflow's, torch's, and under tm the adapter's."""


class Bench:
    """The server, the proxy before it, and what was measured."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.arguments = folder, arguments
        (folder / "served").mkdir()
        self.server = RealServer(folder / "served")
        self.server.start()
        self.proxy = MoodyProxy(self.server.uri)
        (folder / "loop.py").write_text(textwrap.dedent(SCRIPT))
        (folder / "home").mkdir()
        if "full" in arguments.moods.split(","):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder / "home"], check=True)
        self.filler = folder / "home" / "filler"

    def end(self) -> None:
        """End the server, and give the small disk back."""
        self.server.end()
        if os.path.ismount(self.folder / "home"):
            subprocess.run(["umount", self.folder / "home"], check=True)

    def set(self, mood: str, run_id: str) -> None:
        """Change the proxy's mood; killed means that nothing listens any more, full that the disk is full as well."""
        self.proxy.delay_s = 0.5 if mood == "slow" else 0.0
        self.proxy.status = int(mood) if mood.isdigit() else 0
        if mood == "full":
            with contextlib.suppress(OSError), self.filler.open("wb") as file:
                while True:
                    file.write(bytes(1 << 16))
        else:
            self.filler.unlink(missing_ok=True)
        client = mlflow.MlflowClient(self.server.uri)
        if mood == "deleted":
            client.delete_run(run_id)
        elif client.get_run(run_id).info.lifecycle_stage == "deleted":
            client.restore_run(run_id)  # before the program ends it
        if mood in {"killed", "full"}:
            self.proxy.close()
        elif self.proxy.gone:
            self.proxy = MoodyProxy(self.server.uri, self.proxy.port)

    def run(self, command: list[str], mood: str) -> Told:
        """Run the loop once under a mood."""
        env = {
            **os.environ,
            "MLFLOW_TRACKING_URI": self.proxy.uri,
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
            "TRAINMETER_HOME": str(self.folder / "home"),
            "OMP_NUM_THREADS": "1",
        }
        given = [str(self.arguments.steps), str(self.arguments.step_ms / 1000), str(WARM_UP)]
        loop = subprocess.Popen(
            [*command, str(self.folder / "loop.py"), *given], env=env, cwd=self.folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert loop.stdout is not None
        told: Told | None = None
        for line in loop.stdout:
            if line.startswith("warm"):
                self.set(mood, line.split()[1])
            elif line.startswith('["'):
                told = Told(*json.loads(line))
                self.set("fine", told.run_id)
                break
        _, said = loop.communicate("\n", timeout=300)
        if loop.returncode or told is None:
            raise SystemExit(f"the loop failed: {said[-2000:]}")
        return told

    def last_step(self, run_id: str) -> int:
        """The newest optimizer step that MLflow has of a run, after what waited was sent."""
        env = {**os.environ, "TRAINMETER_HOME": str(self.folder / "home")}
        subprocess.run([*TM, "publish"], env=env, check=True, capture_output=True)
        metrics = mlflow.MlflowClient(self.server.uri).get_run(run_id).data.metrics
        return int(metrics.get("trainmeter/step", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--moods", default="fine,slow,500,429,killed,deleted,full")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments)
        try:
            bench.run([sys.executable], "fine")  # makes the tables and warms the disk
            for mood in arguments.moods.split(","):
                measure(bench, mood)
        finally:
            bench.end()


def measure(bench: Bench, mood: str) -> None:
    """Run the pairs under one mood and print what they say."""
    commands = {"bare": [sys.executable], "tm": [*TM, "--quiet"]}
    told: dict[str, list[Told]] = {kind: [] for kind in commands}
    lost = 0
    for pair in range(bench.arguments.pairs):
        for kind in sorted(commands, reverse=bool(pair % 2)):
            told[kind].append(bench.run(commands[kind], mood))
            lost += kind == "tm" and bench.last_step(told[kind][-1].run_id) != bench.arguments.steps
    print(f"{mood}: runs with rows lost: {'none is wanted' if mood == 'deleted' else lost}")
    for what, taken in TAKEN.items():
        bare, under = ([1000 * taken(each.took_s) for each in told[kind]] for kind in ("bare", "tm"))
        differences = [100 * (b / a - 1) for a, b in zip(bare, under, strict=True)]
        floor = [100 * (b / a - 1) for a, b in itertools.pairwise(bare)]
        print(
            f"  {what} step: bare {statistics.median(bare):.2f} ms, tm {statistics.median(differences):+.2f} % "
            f"({min(differences):+.2f} to {max(differences):+.2f}); "
            f"bare against bare {min(floor, default=0.0):+.2f} to {max(floor, default=0.0):+.2f} %"
        )
    for whose, field in (("the training thread", "own_s"), ("other threads", "others_s")):
        bare, under = ([1000 * getattr(each, field) / len(each.took_s) for each in told[kind]] for kind in commands)
        spread = [f"{statistics.median(all_):.3f} ({min(all_):.3f} to {max(all_):.3f})" for all_ in (bare, under)]
        print(f"  processor time of {whose}, ms a step: bare {spread[0]}, tm {spread[1]}", flush=True)


if __name__ == "__main__":
    main()
