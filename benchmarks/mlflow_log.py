"""What trainmeter costs a script that logs to MLflow at every step: the loop's time, bare and under tm, interleaved.

    python benchmarks/mlflow_log.py [--store sqlite|http] [--pairs 5] [--steps 200] [--step-ms 50]

Prints the median time of a step in both, and of the user's own log_metric call.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from pathlib import Path

SCRIPT = """
    import json, sys, time
    import torch
    import mlflow
    torch.set_num_threads(1)
    steps, step_s = int(sys.argv[1]), float(sys.argv[2])
    model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 64, (4, 16))
    took, calls = [], []
    mlflow.set_experiment("benchmark")
    with mlflow.start_run():
        for step in range(steps):
            begun = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(tokens).view(-1, 64), tokens.view(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            while time.perf_counter() - begun < step_s:
                pass
            called = time.perf_counter()
            mlflow.log_metric("loss", loss.item(), step=step)
            calls.append(time.perf_counter() - called)
            took.append(time.perf_counter() - begun)
    print(json.dumps([took[5:], calls[5:]]))
"""


def serve(folder: Path, database: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--backend-store-uri", database, "--artifacts-destination", str(folder / "a")],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    uri = f"http://127.0.0.1:{port}"
    while True:
        try:
            urllib.request.urlopen(uri + "/health", timeout=1).read()
            return server, uri
        except OSError:
            time.sleep(0.3)


def run(command: list[str], uri: str, folder: Path, arguments: argparse.Namespace) -> tuple[list[float], list[float]]:
    env = {**os.environ, "MLFLOW_TRACKING_URI": uri, "TRAINMETER_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    script = [str(folder / "loop.py"), str(arguments.steps), str(arguments.step_ms / 1000)]
    ended = subprocess.run([*command, *script], env=env, capture_output=True, text=True, check=True, cwd=folder)
    line = next(line for line in ended.stdout.splitlines() if line.startswith("[["))
    took, calls = json.loads(line)
    return took, calls


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=("sqlite", "http"), default="sqlite")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-ms", type=float, default=50.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.py").write_text(textwrap.dedent(SCRIPT))
        uri = database = f"sqlite:///{folder}/mlflow.db"
        server = None
        if arguments.store == "http":
            server, uri = serve(folder, database)
        commands = {"bare": [sys.executable], "tm": [sys.executable, "-m", "trainmeter_core"]}
        steps: dict[str, list[float]] = {name: [] for name in commands}
        calls: dict[str, list[float]] = {name: [] for name in commands}
        for pair in range(arguments.pairs + 1):
            for kind, command in commands.items():
                took, called = run(command, uri, folder, arguments)
                if pair:  # the first pair makes the tables and warms the disk
                    steps[kind].append(statistics.fmean(took))
                    calls[kind] += called
                    print(pair, kind, f"{1000 * steps[kind][-1]:.2f} ms per step", flush=True)
        if server is not None:
            os.killpg(server.pid, 15)
        bare, metered = (statistics.median(steps[kind]) for kind in ("bare", "tm"))
        print(f"step: bare {1000 * bare:.2f} ms, tm {1000 * metered:.2f} ms, {100 * (metered / bare - 1):+.2f} %")
        for kind, told in calls.items():
            told.sort()
            print(
                f"log_metric, {kind}: p50 {1000 * told[len(told) // 2]:.2f} ms, "
                f"p95 {1000 * told[len(told) * 95 // 100]:.2f} ms"
            )


if __name__ == "__main__":
    main()
