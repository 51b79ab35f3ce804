"""scripts/gpu_check.py answers every section, here with a fake driver and matmuls on the CPU; the figures mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.fakes.nvml import fake_nvml

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.py"


@pytest.fixture(scope="module")
def told():
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    with tempfile.TemporaryDirectory() as name:  # where another user may read, as a driver lies
        Path(name).chmod(0o755)
        return checked(Path(name))


def checked(folder):
    library = fake_nvml.build(folder)
    cycles = "gpm_248 232e9\ngpm_250 100e9\n"
    text = (fake_nvml.MACHINES / "h200x2.txt").read_text().replace("gpm 1\n", "gpm 1\n" + cycles, 1)
    (folder / "machine.txt").write_text(text)
    env = fake_nvml.environment(library, "h200x2", FAKE_NVML_MACHINE=str(folder / "machine.txt"), OMP_NUM_THREADS="1")
    command = [
        sys.executable,
        str(SCRIPT),
        "--device=cpu",
        "--size=64",
        "--seconds=1.2",
        f"--out={folder / 'out.json'}",
    ]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out.json").read_text())


def test_every_section_has_an_answer_or_a_reason(told):
    sections = {"machine", "sample_cost", "gemm", "cumulative_ids", "fp8", "unprivileged", "product", "beside_ncu"}
    assert sections <= set(told)
    assert {name: told[name]["error"] for name in sections if "error" in told[name]} == {}
    assert told["fp8"]["skipped"] == "fp8 matmul needs a GPU"


def test_the_clock_question_compares_what_was_done_with_what_the_counters_give(told):
    """Activity x SMs x rate x clock: 46.5 % of 132 x 4096 FLOP/clk at 1740 MHz."""
    gemm = told["gemm"]["bf16"]
    assert gemm["observed_tflops"] == pytest.approx(0.465 * 132 * 4096 * 1740e6 / 1e12, rel=0.01)
    assert gemm["achieved_over_observed"] == pytest.approx(gemm["achieved_tflops"] / gemm["observed_tflops"])
    assert told["gemm"]["tf32"]["observed_tflops"] == pytest.approx(gemm["observed_tflops"] / 2, rel=0.01)


def test_the_product_section_trains_bare_and_under_tm(told):
    product = told["product"]
    assert product["same_bits"] is True
    assert product["bare_repeats_itself"] is True
    assert product["no_wait_of_ours"] is True
    assert product["mfu_pct"]["value"] > 0
    assert product["counted_over_exact"] == pytest.approx(1, abs=0.2)


def test_a_sample_has_a_cost(told):
    assert 0 < told["sample_cost"]["median_ms"] < 1000


def test_the_profiling_counters_are_asked_for_as_another_user(told):
    assert told["unprivileged"]["answer"] == "ok"


def test_cumulative_ids_are_shown_against_the_clock(told):
    ids = told["cumulative_ids"]
    assert ids["248"]["value"] == pytest.approx(232e9, rel=0.01)
    assert ids["249"].startswith("n/a")
