"""What a stranger installs: both files of a release are whole, and `tm` works from the wheel with nothing else around."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trainmeter_core", "trainmeter_tb", "trainmeter_wandb", "trainmeter_mlflow")
DATA = (
    "trainmeter_core/py.typed",
    "trainmeter_core/devices/peaks.toml",
    "trainmeter_core/passport/schema.json",
    "trainmeter_core/inside/site/sitecustomize.py",
    "trainmeter_core/inside/site/enabled.py",
    "trainmeter_tb/tab/static/index.js",
    "trainmeter_tb/tab/static/index.css",
    "trainmeter_tb/tab/static/LICENSE.uPlot",
)
TRAIN = """
import importlib.util, sys
assert importlib.util.find_spec("trainmeter_core") is None or "trainmeter_core" in sys.modules
assert importlib.util.find_spec("click") is None
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(7):
    model(torch.arange(32).view(2, 16) % 16).sum().backward()
    optimizer.step()
print("done")
"""


class Built(NamedTuple):
    """The two files of a release."""

    wheel: Path
    sdist: Path


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command without what this environment says of Python and of trainmeter."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINMETER", "PYTHON", "TM"))}
    return subprocess.run(
        [str(word) for word in words], env={**env, **variables}, capture_output=True, text=True, timeout=280
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Built:
    """The source distribution, and the wheel that is built from it."""
    place = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", place, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = place.glob("*.whl"), place.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="session")
def alone(built, tmp_path_factory) -> Path:
    """The `tm` of a tool's own environment: it holds the wheel and what that requires, and no extra."""
    place = tmp_path_factory.mktemp("alone")
    uv = Path(sys.executable).with_name("uv")
    done = run(
        *(uv, "tool", "install", "--quiet", "--python", sys.executable, built.wheel),
        UV_TOOL_DIR=str(place / "tools"), UV_TOOL_BIN_DIR=str(place / "bin"), UV_CACHE_DIR=str(place / "cache"),
        UV_SYSTEM_CERTS="1",
    )  # fmt: skip
    if done.returncode == 0:
        return place / "bin" / "tm"
    # uv does not read how pip reaches its index on this machine.
    venv.create(place / "env", with_pip=False)
    python = place / "env" / "bin" / "python"
    done = run(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", built.wheel)
    if done.returncode:  # no package index answers; CI allows no skip
        pytest.skip("packages cannot be installed here: " + (done.stderr.strip().splitlines() or ["no reason"])[-1])
    return place / "env" / "bin" / "tm"


@pytest.fixture(scope="session")
def trainer(tmp_path_factory) -> Path:
    """The Python of another environment: it has the torch of the tests, and nothing of ours."""
    place = tmp_path_factory.mktemp("trainer")
    venv.create(place, with_pip=False, symlinks=True)
    [site] = place.glob("lib/python*/site-packages")
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    for entry in Path(torch.origin).parents[1].iterdir():
        if not entry.name.lower().startswith(("trainmeter", "click", "pluggy", "_")) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    return place / "bin" / "python"


def files_of(source: str) -> set[str]:
    """The files that git knows below a folder of the tree; what lies there, where there is no git."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-coz", "--exclude-standard", source], capture_output=True, text=True
    )
    if done.returncode == 0 and done.stdout:
        return set(done.stdout.strip("\0").split("\0"))
    found = (path for path in (ROOT / source).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(ROOT)) for path in found}


class TestFiles:
    """The wheel and the source distribution."""

    def test_the_wheel_holds_every_module_of_the_four_packages_and_nothing_else(self, built):
        names = {name for name in zipfile.ZipFile(built.wheel).namelist() if ".dist-info/" not in name}
        tree = {name.removeprefix("src/") for package in PACKAGES for name in files_of(f"src/{package}")}
        assert names == {name for name in tree if not name.startswith("trainmeter_tb/tab/frontend/")}
        assert set(DATA) <= names

    def test_the_wheel_says_what_it_offers_and_under_which_licence(self, built):
        wheel = zipfile.ZipFile(built.wheel)
        [entry_points] = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
        assert wheel.read(entry_points).decode().split() == [
            *("[console_scripts]", "tm", "=", "trainmeter_core.cli.entry:main"),
            *("[tensorboard_plugins]", "trainmeter", "=", "trainmeter_tb.tab.plugin:TrainmeterTab"),
            *("[trainmeter]", "mlflow", "=", "trainmeter_mlflow.plugin", "tensorboard", "=", "trainmeter_tb.plugin"),
            *("wandb", "=", "trainmeter_wandb.plugin"),
        ]
        assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())

    def test_a_checkout_can_be_had_from_the_source_distribution(self, built):
        """What `make test` needs is there: tests, their conftest, scripts, examples, pages."""
        with tarfile.open(built.sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        for source in ("src", "tests", "docs", "examples", "benchmarks", "scripts", "conftest.py", "Makefile"):
            assert files_of(source) <= names, source
        assert {"CONTRIBUTING.md", "CHANGELOG.md", "README.md", "LICENSE", "constraints.txt", "mkdocs.yml"} <= names


class TestAlone:
    """`tm` from the wheel alone."""

    def test_it_answers(self, alone):
        version = run(alone, "--version")
        assert (version.returncode, version.stdout.split()[0]) == (0, "trainmeter")
        assert run(alone, "--help").stdout.startswith("usage: tm ")

    def test_its_doctor_names_what_is_not_there_and_fails_for_none_of_it(self, alone, tmp_path):
        done = run(alone, "doctor", TRAINMETER_HOME=str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "adapters: mlflow, tensorboard, wandb" in done.stdout

    def test_it_measures_a_program_whose_python_has_nothing_of_ours(self, alone, trainer, tmp_path):
        (tmp_path / "train.py").write_text(TRAIN)
        home = tmp_path / "home"
        done = run(alone, "--no-web", "--python", trainer, tmp_path / "train.py", TRAINMETER_HOME=str(home))
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        [passport] = home.glob("runs/*/passport.json")
        data = json.loads(passport.read_text())["data"]
        assert (data["steps"]["value"], data["tokens"]["value"]) == (7, 224)
