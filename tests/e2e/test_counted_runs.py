"""`tm --count` on real programs: wrapped, sharded, compiled and adapted models; the program's own output stays its own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402 - after the skip
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.e2e.conftest import PYTHON  # noqa: E402 - beside the fixtures
from tests.e2e.programs.tiny import GPT, config, tokens  # noqa: E402 - the programs' own model
from tests.e2e.test_ends import TORCHRUN  # noqa: E402

PROGRAMS = Path(__file__).with_name("programs")


def as_torch_counts(rows, length):
    """FLOPs of one pass of the programs' GPT, with the fused kernel's second look at the scores."""
    batch = tokens(rows, length + 1)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        GPT(config())(batch[:, :-1], batch[:, 1:])[1].backward()
    return counter.get_total_flops() + 2 * (2 * rows * length * length * 16)


CASES = {
    "ddp": (TORCHRUN, (), [(4, 16)], {}),
    "fsdp2": (TORCHRUN, (), [(4, 16)], {}),
    "accumulation": ((PYTHON,), (), [(4, 16), (2, 8)], {}),
    "script_loop": ((PYTHON,), (), [(4, 16)], {"COMPILE": "1"}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_in_any_wrapping_counts_as_torch_counts_it(launch, name):
    """Losses, weights and random numbers are bit by bit those of the bare program."""
    launcher, arguments, shapes, env = CASES[name]
    words = [str(PROGRAMS / f"{name}.py"), *arguments]
    bare = launch.bare(*launcher, *words, env=env)
    run = launch.tm(
        "--count", "--peak-tflops", "0.1", *(("--", *TORCHRUN) if launcher is TORCHRUN else ()), *words, env=env
    )
    assert (run.code, run.stdout) == (bare.code, bare.stdout), run.stderr
    assert run.code == 0
    [counted] = run.records("counted")
    assert (counted["gaps"], counted["absent"]) == ([], "")
    found = {(row[0], row[1]): row[3] for row in counted["counts"]}
    assert found == {shape: as_torch_counts(*shape) for shape in found}
    assert set(found) == set(shapes)
    assert run.value("observation.failures") == []
    assert run.value("efficiency.hfu_pct") is not None


def test_adapters_are_counted_at_every_length_of_the_first_step(launch):
    """exact is less: it leaves out what a causal mask hides and the kernel's second look."""
    pytest.importorskip("peft")
    program = str(PROGRAMS / "adapters.py")
    bare, run = launch.bare(PYTHON, program), launch.tm("--count", "--peak-tflops", "0.1", program)
    assert (run.code, run.stdout) == (bare.code, bare.stdout)
    [counted] = run.records("counted")
    assert [row[:3] for row in counted["counts"]] == [[2, 16, 0], [2, 8, 0]]
    assert run.value("compute.counted") > run.value("compute.flops.exact") > 0
    assert run.value("efficiency.hfu_pct") is not None
