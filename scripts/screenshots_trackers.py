"""Make the pictures of W&B and MLflow in docs/img: real runs under tm, in the tracker's own interface.

The runs train on the CPU, take their GPU counters from the tests' stand-in for NVIDIA's driver, and have a stand-in for
the peak. Needs the test environment, gcc, tmux and a Chromium, and about five minutes.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import screenshots
from screenshots import IMAGES, ROOT, save

BUSY = {"util": 97, "util_buffer": 97, "gpm_1": 97, "gpm_2": 88, "gpm_5": 61}
"""What the stand-in driver says, beside what the tests' machine with H200s says: a training that could be better."""
RUNS = {"batch-16": ["--batch-size", "16"], "batch-4": ["--batch-size", "4", "--eval-every", "40"]}
PEAK_TFLOPS = "0.16"
COLUMNS, LINES = 150, 42
FILTER = "loss|r/(flops|tokens|mfu_pct|tokens_per_s|step_time_s|tflops)$|time/(step|eval)$|mfu/(hf|megatron)$"


def machine(folder: Path) -> dict[str, str]:
    """Variables under which the stand-in driver answers, as the busy one of the tests' two H200."""
    from tests.fakes.nvml import fake_nvml

    text = (fake_nvml.MACHINES / "h200x2.txt").read_text()
    text = text[: text.rindex("gpu\n")]
    for key, value in BUSY.items():
        text = re.sub(rf"(?m)^  {key} .*$", f"  {key} {value}", text)
    (folder / "machine.txt").write_text(text)
    library = str(fake_nvml.build(folder))
    return {"LD_LIBRARY_PATH": library, "FAKE_NVML_MACHINE": str(folder / "machine.txt")}


def train(folder: Path, tracker: str, name: str, seconds: float, **variables: str) -> None:
    """One run under tm, in a folder."""
    words = [sys.executable, "-m", "trainmeter_core", "--peak-tflops", PEAK_TFLOPS]
    shutil.copy(ROOT / "scripts" / "screenshots_train.py", folder / "train.py")  # as a user's own, in their folder
    words += ["train.py", tracker, "--name", name, "--seconds", str(seconds)]
    env = {**os.environ, **machine(folder), "TRAINMETER_HOME": str(folder / "home"), **variables}
    env["PYTHONPATH"] = str(ROOT / "examples")
    subprocess.run([*words, *RUNS[name]], check=True, env=env, cwd=folder, stdout=subprocess.DEVNULL)


def shoot_mlflow(chromium: Any, folder: Path, seconds: float) -> None:
    """The run's charts, its panel, and the view that all runs of the experiment share."""
    import mlflow
    from tests.e2e.mlflow_server import tracking_server

    with tracking_server(folder / "mlflow") as uri:
        for name in RUNS if seconds else ():
            train(folder, "mlflow", name, seconds, MLFLOW_TRACKING_URI=uri)
        client = mlflow.MlflowClient(uri)
        experiment = client.get_experiment_by_name("train_gpt").experiment_id
        run = client.search_runs([experiment], "attributes.run_name = 'batch-16'")[0].info.run_id
        runs = f"{uri}/#/experiments/{experiment}/runs"
        page = chromium.new_page(viewport={"width": 1360, "height": 1000})
        page.goto(f"{runs}/{run}/model-metrics")
        page.get_by_role("button", name="Close").first.click()  # of the assistant, which it opens beside a first run
        page.get_by_placeholder("Search metric charts").fill("mfu_pct|tokens_per_s|loss|ladder")
        page.get_by_text("(trainmeter/mfu_pct)").wait_for()
        page.wait_for_timeout(4000)
        save(page.screenshot(), IMAGES / "mlflow-metrics.png")
        page.goto(f"{runs}?viewStateShareKey=trainmeter&compareRunsMode=CHART")
        page.locator(".js-plotly-plot").first.wait_for()
        page.wait_for_timeout(6000)
        save(page.screenshot(), IMAGES / "mlflow-shared-view.png")
        page.goto(f"{runs}/{run}/artifacts/trainmeter/panel.html")
        page.frame_locator("iframe").get_by_text("Utilization ladder").first.wait_for()
        page.wait_for_timeout(2000)
        save(page.screenshot(), IMAGES / "mlflow-panel.png")
        page.close()


def shoot_wandb(chromium: Any, folder: Path, seconds: float) -> None:
    """The charts in the client's own terminal viewer, and the passport's panel."""
    if seconds:
        train(folder, "wandb", "batch-16", seconds, WANDB_SILENT="true", WANDB_CONSOLE="off")
    [run] = (folder / "wandb").glob("offline-run-*")
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_content(drawn(screen_of(run)))
    page.wait_for_timeout(1000)
    save(page.locator("svg").screenshot(), IMAGES / "wandb-leet.png")
    [panel] = (run / "files" / "media" / "html" / "trainmeter").glob("passport*.html")
    page.goto(panel.as_uri())
    page.wait_for_timeout(1000)
    save(page.screenshot(), IMAGES / "wandb-panel.png")
    page.close()


def screen_of(run: Path) -> str:
    """What `wandb leet` shows of a run, with the colours as escape sequences; without the pane that names the host."""
    home = tempfile.mkdtemp(dir=run.parent)  # the viewer remembers there which panes were open
    socket = f"{home}/tmux"
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "HOME": home}

    def tmux(*words: str) -> str:
        return subprocess.run(
            ["tmux", "-S", socket, *words], env=env, capture_output=True, text=True, check=False
        ).stdout

    viewer = f"{sys.executable} -m wandb leet {run}"
    tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), viewer)
    try:
        until = time.monotonic() + 60
        while "trainmeter" not in tmux("capture-pane", "-p") and time.monotonic() < until:
            time.sleep(0.5)
        for keys in ("[", "]", "/", FILTER, "Enter"):
            tmux("send-keys", keys)
            time.sleep(2.5)
        return tmux("capture-pane", "-e", "-p")
    finally:
        tmux("kill-server")


def drawn(screen: str) -> str:
    """A terminal's screen as SVG; with fonts of this machine, since pictures load nothing from elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen), end="")
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="wandb leet"), flags=re.DOTALL).replace(
        "Fira Code", "DejaVu Sans Mono"
    )


def main() -> None:
    """Make the pictures of both, or of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("wandb", "mlflow"))
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a run trains")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="a folder that --keep left: nothing is trained")
    parser.add_argument("--keep", action="store_true", help="leave the runs' folder, and say where")
    given = parser.parse_args()
    folder = given.runs or Path(tempfile.mkdtemp(prefix="trainmeter-pictures-"))
    (folder / "mlflow").mkdir(exist_ok=True)
    try:
        with screenshots.browser() as chromium:
            for name, shoot in (("wandb", shoot_wandb), ("mlflow", shoot_mlflow)):
                if given.only in (None, name):
                    shoot(chromium, folder, 0.0 if given.runs else given.seconds)
    finally:
        if given.keep:
            print(folder)
        elif not given.runs:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
