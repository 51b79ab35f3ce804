"""Where `tm` cannot be put in front: programs and notebooks that start it, and environments that `tm enable` was run on."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.known import known
from trainmeter_core.outside.enabling import PTH_FILE, disable, enable, line_of, site_packages

TRAIN = """
import torch
from torch import nn
torch.set_num_threads(1)
def train(steps=7):
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.arange(32).view(2, 16) % 16).sum().backward()
        optimizer.step()
"""


RANKS = """
import os, torch, torch.distributed as dist, trainmeter_core
torch.set_num_threads(1)
os.write(1, f"{trainmeter_core.start()}\\n".encode())  # at once: ranks share the pipe
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.arange(32).view(2, 16) % 16).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def variables(home: Path, **more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINMETER", "TM"))}
    return {**env, "TRAINMETER_HOME": str(home), **more}


def run(place: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = variables(place / "home", **more)
    return subprocess.run([sys.executable, *words], cwd=place, env=env, capture_output=True, text=True, timeout=200)


def passports(place: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(place.glob("home/runs/*/passport.json"))]


def counts(passport: dict) -> tuple[int, int]:
    return passport["data"]["steps"]["value"], passport["data"]["tokens"]["value"]


class TestStart:
    """`trainmeter_core.start()`."""

    def test_a_program_that_starts_it_has_a_run_that_ends_with_it(self, tmp_path):
        (tmp_path / "train.py").write_text(
            TRAIN + "import trainmeter_core\nprint(trainmeter_core.start(peak_tflops=0.5, run_name='mine'))\ntrain()\n"
        )
        done = run(tmp_path, "train.py")
        [passport] = passports(tmp_path)
        assert done.returncode == 0
        assert Path(done.stdout.strip()).parent == tmp_path / "home" / "runs"
        assert counts(passport) == (7, 7 * 32)
        assert passport["identity"]["name"] == "mine"
        assert passport["options"]["peak_tflops"]["value"] == 0.5
        assert "7 steps · 224 tokens" in done.stderr

    def test_a_second_start_is_the_first_and_a_stop_ends_it(self, tmp_path):
        (tmp_path / "train.py").write_text(
            TRAIN + "import os, trainmeter_core as t\n"
            "def ours(): return {k: v for k, v in os.environ.items() if k[:10] in ('TRAINMETER', 'PYTHONPATH')}\n"
            "before = ours()\n"
            "assert t.start() == t.start()\ntrain(3)\nt.stop()\n"
            "assert ours() == before\n"
            "train(2)\nassert t.start()\ntrain(4)\n"
        )
        done = run(tmp_path, "train.py", PYTHONPATH="/nowhere")
        assert done.returncode == 0, done.stderr
        assert [counts(passport)[0] for passport in passports(tmp_path)] == [3, 4]

    def test_under_tm_it_does_nothing(self, tmp_path):
        (tmp_path / "train.py").write_text(TRAIN + "import trainmeter_core\ntrainmeter_core.start()\ntrain()\n")
        assert run(tmp_path, "-m", "trainmeter_core", "train.py").returncode == 0
        [passport] = passports(tmp_path)
        assert counts(passport) == (7, 224)

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            ("convention='metric'", "no convention 'metric'"),
            ("budget_tokens='20X'", "'20X' is not a number"),
            ("speed=3", "no option 'speed'"),
        ],
    )
    def test_bad_options_cost_one_line_and_no_training(self, tmp_path, call, said):
        (tmp_path / "train.py").write_text(TRAIN + f"import trainmeter_core\ntrainmeter_core.start({call})\ntrain()\n")
        done = run(tmp_path, "train.py")
        assert (done.returncode, done.stdout, passports(tmp_path)) == (0, "", [])
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_all_ranks_of_a_node_are_measured_in_one_run(self, tmp_path):
        (tmp_path / "ranks.py").write_text(RANKS)
        launcher = ("-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
        done = run(tmp_path, *launcher, "--nproc_per_node=3", "ranks.py", TMPDIR=str(tmp_path), OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stderr
        [passport] = passports(tmp_path)
        assert counts(passport) == (5, 3 * 5 * 32)
        assert passport["data"]["tokens"]["source"] == "counted"
        assert passport["hardware"]["ranks_seen"]["value"] == 3
        assert passport["time"]["restarts"]["value"] == 0
        assert len(set(done.stdout.split())) == 1
        assert not list(tmp_path.glob("trainmeter-*/job-*"))

    def test_what_trains_on_a_moment_longer_than_the_first_has_its_last_steps(self, tmp_path):
        """Also where it has only just begun."""
        waits = "import os, time\ntrain(1)\nopen('stepped', 'w').close()\ntime.sleep(1)\ntrain(4)\n"
        (tmp_path / "other.py").write_text(TRAIN + waits)
        (tmp_path / "first.py").write_text(
            "import os, subprocess, sys, time, trainmeter_core\ntrainmeter_core.start()\n"
            "subprocess.Popen([sys.executable, 'other.py'])\n"
            "while not os.path.exists('stepped'): time.sleep(0.001)\n"
        )
        done = run(tmp_path, "first.py")
        assert done.returncode == 0, done.stderr
        [passport] = passports(tmp_path)
        assert counts(passport) == (5, 5 * 32)

    def test_a_rank_that_finds_no_first_one_says_so_and_trains(self, tmp_path):
        (tmp_path / "train.py").write_text(TRAIN + "import trainmeter_core\nprint(trainmeter_core.start())\ntrain()\n")
        done = run(tmp_path, "train.py", LOCAL_RANK="1")
        assert (done.returncode, done.stdout) == (0, "None\n")
        assert "the first rank of this node started nothing that this one can join" in done.stderr

    @pytest.mark.parametrize("asked", [{"TM": "0"}, {"TM": "off", "LOCAL_RANK": "1"}])
    def test_switched_off_nothing_is_started(self, tmp_path, asked):
        (tmp_path / "train.py").write_text(TRAIN + "import trainmeter_core\nprint(trainmeter_core.start())\ntrain()\n")
        done = run(tmp_path, "train.py", **asked)
        assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")

    def test_a_program_that_is_killed_has_its_passport(self, tmp_path):
        (tmp_path / "train.py").write_text(
            TRAIN + "import os, signal, trainmeter_core\ntrainmeter_core.start()\ntrain()\nos.kill(os.getpid(), 9)\n"
        )
        done = run(tmp_path, "train.py")
        assert done.returncode == -9
        for _ in range(100):
            if passports(tmp_path):
                break
            subprocess.run(["sleep", "0.2"], check=True)
        assert counts(passports(tmp_path)[0]) == (7, 224)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Another environment, without trainmeter, that sees the torch of this one."""
    place = tmp_path_factory.mktemp("other")
    venv.create(place, with_pip=False, symlinks=True)
    python = str(place / "bin" / "python")
    torch = Path(known(known(importlib.util.find_spec("torch")).origin)).parents[1]
    (site_packages(python) / "torch_of_the_tests.pth").write_text(f"{torch}\n")
    return python


class TestEnable:
    """`tm enable` and `tm disable`."""

    @pytest.fixture
    def enabled(self, python):
        place = enable(python)
        yield python
        place.unlink(missing_ok=True)

    def go(self, python, place, *words, **more):
        (place / "train.py").write_text(TRAIN + "train()\n")
        env = variables(place / "home", **more)
        return subprocess.run(
            [python, *words, "train.py"], cwd=place, env=env, capture_output=True, text=True, timeout=200
        )

    def test_nothing_happens_unless_asked(self, enabled, tmp_path):
        done = self.go(enabled, tmp_path)
        assert (done.returncode, done.stdout, done.stderr, passports(tmp_path)) == (0, "", "", [])

    @pytest.mark.parametrize("isolated", [(), ("-I",)], ids=["plain", "-I"])
    def test_a_program_measures_itself_where_it_is_asked_for(self, enabled, tmp_path, isolated):
        done = self.go(enabled, tmp_path, *isolated, TRAINMETER="1")
        assert (done.returncode, done.stdout) == (0, "")
        assert counts(passports(tmp_path)[0]) == (7, 224)

    def test_a_python_that_never_imports_torch_starts_nothing(self, enabled, tmp_path):
        env = variables(tmp_path / "home", TRAINMETER="1")
        done = subprocess.run([enabled, "-c", "print(1)"], env=env, capture_output=True, text=True)
        assert (done.stdout, done.stderr, passports(tmp_path)) == ("1\n", "", [])

    def test_tm_sees_into_a_program_that_ignores_pythonpath(self, enabled, tmp_path):
        (tmp_path / "train.py").write_text(TRAIN + "train()\n")
        assert run(tmp_path, "-m", "trainmeter_core", "--", enabled, "-I", "train.py").returncode == 0
        assert counts(passports(tmp_path)[0]) == (7, 224)

    def test_one_file_is_written_and_taken_out_again(self, python):
        before = set(site_packages(python).iterdir())
        place = enable(python)
        enable(python)
        assert set(site_packages(python).iterdir()) - before == {place}
        assert place.name == PTH_FILE
        assert disable(python) == place
        assert disable(python) is None
        assert set(site_packages(python).iterdir()) == before

    def test_when_tm_is_gone_the_file_does_nothing(self, python, tmp_path):
        place = site_packages(python) / PTH_FILE
        place.write_text(line_of("/nowhere/inside/site", "/nowhere/python"))
        done = subprocess.run(
            [python, "-c", "print(1)"], env={**os.environ, "TRAINMETER": "1"}, capture_output=True, text=True
        )
        place.unlink()
        assert (done.stdout, done.stderr) == ("1\n", "")

    def test_a_python_that_is_none_gets_one_line(self, tmp_path):
        done = run(tmp_path, "-m", "trainmeter_core", "enable", "--python", "/nowhere/python")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
