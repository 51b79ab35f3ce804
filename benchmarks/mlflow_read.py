"""How long a passport takes from MLflow alone, and what memory, for a run with long histories in a sqlite store.

    python benchmarks/mlflow_read.py [--points 1000000] [--keys 1] [--server]

The points are put into the database by SQL. With --server a real `mlflow server` stands before it. Prints seconds,
processor time with that of the imports, and memory, for a hundred points and for all, in a process of its own each.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.e2e.mlflow_server import RealServer

READ = """
import resource, sys, time
from trainmeter_core.passport.build import build
from trainmeter_mlflow.plugin import open_run
run_id, server = sys.argv[1:]
import mlflow
start = time.perf_counter()
passport = build(open_run("mlflow:" + run_id, server))
points = sum(loss["count"]["value"] for loss in passport["losses"].values())
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(points, time.perf_counter() - start, time.process_time(), memory)
"""


def fill(database: Path, run_id: str, key: str, points: int) -> None:
    """Put a history into MLflow's own tables."""
    with sqlite3.connect(database) as opened:
        rows = ((key, 1 / (step + 1), 1_000_000 + step, step, run_id) for step in range(points))
        opened.executemany(
            "INSERT INTO metrics (key, value, timestamp, step, run_uuid, is_nan) VALUES (?, ?, ?, ?, ?, 0)", rows
        )
        opened.execute(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)",
            (key, 1 / points, 1_000_000 + points - 1, points - 1, run_id),
        )
    opened.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--server", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "store"
        folder.mkdir()
        os.chdir(folder)
        uri = f"sqlite:///{folder}/mlflow.db"
        store = importlib.import_module("mlflow.store.tracking.sqlalchemy_store").SqlAlchemyStore(uri, str(folder))
        mlflow = importlib.import_module("mlflow")
        client = mlflow.MlflowClient(uri)
        runs = [client.create_run("0").info.run_id for _ in range(2)]
        store.engine.dispose()
        for run_id, points in zip(runs, (100, arguments.points), strict=True):
            for key in range(arguments.keys):
                fill(folder / "mlflow.db", run_id, f"loss_{key}", points)
        server = RealServer(folder) if arguments.server else None
        try:
            if server is not None:
                server.start()
            told = []
            for run_id in runs:
                command = [sys.executable, "-c", READ, run_id, server.uri if server is not None else uri]
                shown = subprocess.run(command, capture_output=True, text=True, check=True)
                told.append([float(word) for word in shown.stdout.split()])
        finally:
            if server is not None:
                server.end()
        for points, seconds, own_s, memory in told:
            print(f"{points:.0f} points: {seconds:.1f} s, {own_s:.1f} s of a processor, {memory:.0f} MB")


if __name__ == "__main__":
    main()
