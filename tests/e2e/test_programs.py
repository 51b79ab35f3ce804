"""Each kind of training program under `tm`: its output and end are its own, and the counts are exact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import PYTHON, user_lines
from trainmeter_core.passport.schema import problems

PROGRAM_FILES = Path(__file__).with_name("programs")
TORCHRUN = (PYTHON, "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
ACCELERATE = (
    *(PYTHON, "-m", "accelerate.commands.launch", "--cpu", "--num_processes=2", "--num_machines=1"),
    *("--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"),
)


@dataclass(frozen=True)
class Expected:
    """What a program does, by its source. `None`: the program has no such thing."""

    steps: int
    samples: int
    tokens: int | None
    micro_batches: int
    skipped: int = 0
    kinds: tuple[str, ...] = ()
    """Kinds of time that must have been seen."""
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    needs: str = ""
    """A package that is not there everywhere."""
    launcher: tuple[str, ...] = ()
    restarts: int = 0
    lost: int = 0
    same_batches: bool = False
    """Whether some ranks are given the same batches, and the program tells of it."""
    noted: str = ""
    """The verdict that `tm` gives after its summary, by its code."""
    program: str = ""
    """The file, where the case is named otherwise."""


PROGRAMS = {
    "plain": Expected(22, 88, 88 * 16, 22, kinds=("data_wait", "eval", "checkpoint")),
    "accumulation": Expected(9, 9 * 14, 9 * (3 * 4 * 16 + 2 * 8), 36),
    "master_weights": Expected(12, 96, 96 * 16, 24),
    "scaler": Expected(9, 48, 48 * 16, 12, skipped=3),
    "lbfgs": Expected(6, 24 * 32, None, 24),
    "gan": Expected(20, 20 * 12, None, 20),
    "two_optimizers": Expected(14, 56, 56 * 16, 14),
    "trainer_class": Expected(30, 240, 240 * 16, 30, kinds=("data_wait", "eval", "checkpoint")),
    "script_loop": Expected(20, 240, 240 * 16, 60, kinds=("eval", "checkpoint")),
    "outlives": Expected(3, 6, 6 * 16, 3),
    "folds": Expected(18, 72, 72 * 16, 18, kinds=("data_wait",)),
    "two_threads": Expected(60, 240, 240 * 16, 60, noted="another-training"),
    "by_value": Expected(12, 36, 36 * 6, 12, kinds=("checkpoint",)),
    "images": Expected(21, 150, None, 21, kinds=("data_wait", "eval", "checkpoint")),
    "word_lm": Expected(12, 60, 60 * 9, 12, arguments=("--sgd",)),
    "time_first": Expected(12, 60, 60 * 9, 12),
    "accelerate_loop": Expected(12, 96, 96 * 16, 24, kinds=("data_wait",)),
    "hf_trainer": Expected(
        18, 144, 144 * 16, 36, kinds=("data_wait", "eval", "checkpoint", "logging"), arguments=("{out}",)
    ),
    "lightning_fit": Expected(
        15, 60, 60 * 16, 15, kinds=("data_wait", "eval", "checkpoint", "logging"), arguments=("{out}",)
    ),
    "lightning_fit-plain": Expected(
        6, 64, 64 * 16, 16, kinds=("data_wait", "eval"), arguments=("{out}", "plain"), program="lightning_fit"
    ),
    "fabric_loop": Expected(8, 64, 64 * 16, 16, kinds=("data_wait", "eval", "checkpoint"), arguments=("{out}",)),
    "lora_trainer": Expected(
        12, 48, 48 * 16, 12, kinds=("data_wait", "eval", "checkpoint"), arguments=("{out}",), needs="peft"
    ),
    "sft_trainer": Expected(8, 32, 32 * 12, 16, kinds=("data_wait",), arguments=("{out}",), needs="trl"),
    "script_loop-compiled": Expected(
        20, 240, 240 * 16, 60, kinds=("eval", "checkpoint"), env=(("COMPILE", "1"),), program="script_loop"
    ),
}
PARALLEL = {
    "ddp": Expected(12, 96, 96 * 16, 24, launcher=(*TORCHRUN, "--nproc_per_node=2")),
    "fsdp2": Expected(6, 48, 48 * 16, 12, launcher=(*TORCHRUN, "--nproc_per_node=2")),
    "accelerate_loop-launched": Expected(
        # Its launcher's own setting of one micro-batch a step goes before the program's two.
        12, 96, 96 * 16, 24, kinds=("data_wait",), launcher=ACCELERATE, program="accelerate_loop"
    ),
    "tensor_parallel": Expected(8, 32, 32 * 16, 8, same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=2")),
    "tensor_parallel-2d": Expected(
        8, 64, 64 * 16, 16, arguments=("mesh",), same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=4"),
        program="tensor_parallel",
    ),
    "pipeline": Expected(8, 64, 64 * 16, 32, same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=2")),
    "pipeline-2d": Expected(
        8, 128, 128 * 16, 64, same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=4"), program="pipeline"
    ),
    "context": Expected(8, 32, 32 * 16, 8, launcher=(*TORCHRUN, "--nproc_per_node=2")),
    "context-2d": Expected(8, 64, 64 * 16, 16, launcher=(*TORCHRUN, "--nproc_per_node=4"), program="context"),
    "megatron_gpt": Expected(
        6, 48, 48 * 16, 12, arguments=("2", "1"), same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=2"),
        needs="megatron.core",
    ),
    "megatron_gpt-pipeline": Expected(
        6, 48, 48 * 16, 12, arguments=("1", "2"), same_batches=True, launcher=(*TORCHRUN, "--nproc_per_node=2"),
        needs="megatron.core", program="megatron_gpt",
    ),
    "megatron_gpt-distributed": Expected(
        6, 96, 96 * 16, 24, arguments=("1", "1", "bf16"), launcher=(*TORCHRUN, "--nproc_per_node=2"),
        needs="megatron.core", program="megatron_gpt",
    ),
    "elastic": Expected(
        12, 96, 96 * 16, 24, kinds=("checkpoint",), arguments=("{out}",), restarts=1, lost=2,
        launcher=(*TORCHRUN, "--nproc_per_node=2", "--max-restarts=1"),
    ),
}  # fmt: skip
"""Programs of several ranks; the numbers are those of the whole run."""
WITHOUT = {
    "word_lm": "no step: the weights are changed without an optimizer",
    "plain_optimizer": "no step: the optimizer is not one of torch.optim",
    "inference": "no step: it does not train",
}
"""Programs that have nothing to count, and why."""
each_program = pytest.mark.parametrize(("name", "expected"), PROGRAMS.items(), ids=list(PROGRAMS))
each_parallel = pytest.mark.parametrize(("name", "expected"), PARALLEL.items(), ids=list(PARALLEL))


@pytest.fixture
def pair(launch, name, expected):
    if expected.needs:
        pytest.importorskip(expected.needs)
    return launch.pair(expected.program or name, *expected.arguments, launcher=expected.launcher, **dict(expected.env))


@each_program
def test_output_and_exit_code_are_the_programs_own(pair, name, expected):
    """Losses and a hash of the final weights are printed, so that equal output is equal training, bit by bit."""
    assert pair.bare.code == 0, pair.bare.stderr
    assert pair.tm.code == 0, pair.tm.stderr
    assert pair.tm.stdout == pair.bare.stdout
    assert len(pair.bare.stdout.split()[-1]) == 64


@each_program
def test_counts_are_exact(pair, name, expected):
    run = pair.tm
    assert run.value("data.steps") == expected.steps
    assert run.value("data.steps_skipped") == expected.skipped
    assert run.value("data.samples") == expected.samples
    assert (run.value("data.tokens") or None) == expected.tokens
    assert run.value("data.micro_batches") == expected.micro_batches


@each_program
def test_time_shares_add_up_and_name_what_happened(pair, name, expected):
    shares = {kind: share["value"] for kind, share in pair.tm.value("time.shares").items() if share}
    assert sum(shares.values()) == pytest.approx(100, abs=0.1)
    assert shares["step"] > 0
    assert shares["startup"] > 0
    for kind in expected.kinds:
        assert shares[kind] > 0, (kind, shares)
    for kind in {"eval", "checkpoint", "logging"} - set(expected.kinds):
        assert shares[kind] == 0, (kind, shares)


@each_program
def test_the_run_directory_is_whole_and_truthful(pair, name, expected):
    run = pair.tm
    assert problems(run.passport) == []
    assert run.value("ends.how") == "finished"
    assert run.value("observation.failures") == []
    assert run.value("observation.junk_lines") == 0
    assert run.value("observation.dropped_step_records") == 0
    assert run.value("observation.torn_tail") is False
    assert run.value("model.parameters_total") > 0
    assert run.value("compute.flops.exact") > 0
    assert [record["code"] for record in run.records("exit")] == [0]
    assert sum(record["n"] for record in run.records("steps")) == expected.steps


@each_program
def test_tm_says_its_lines_on_stderr_and_leaves_the_rest(pair, name, expected):
    assert (
        sum(line.startswith("tm: look at this run: tensorboard --logdir ") for line in pair.tm.stderr.splitlines()) == 1
    )
    *_, summary = (line for line in pair.tm.stderr.splitlines() if line.startswith(f"tm: {expected.steps} steps · "))
    noted = [verdict for verdict in pair.tm.passport["verdicts"] if verdict["code"] == expected.noted]
    last = noted[0]["sentence"] if expected.noted else summary[len("tm: ") :]
    assert pair.tm.stderr.splitlines()[-1] == "tm: " + last
    assert sorted(user_lines(pair.tm.stderr)) == sorted(user_lines(pair.bare.stderr))


@each_parallel
def test_several_ranks_add_up_to_the_whole_run(pair, name, expected):
    """Batches that several ranks are given count once; each rank's own ones add up, over a restart as well."""
    run = pair.tm
    assert pair.bare.code == run.code == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == sorted(pair.bare.stdout.splitlines())
    assert len(run.stdout.splitlines()) >= expected.steps
    assert run.value("data.steps") == expected.steps
    assert run.value("data.samples") == expected.samples
    assert run.value("data.tokens") == expected.tokens
    assert run.value("data.micro_batches") == expected.micro_batches
    assert run.value("time.restarts") == expected.restarts
    assert run.passport["time"]["lost_steps"] == {"value": expected.lost, "unit": "steps", "source": "counted"}
    assert run.value("observation.failures") == []
    assert problems(run.passport) == []
    shares = {kind: share["value"] for kind, share in run.value("time.shares").items() if share}
    assert sum(shares.values()) == pytest.approx(100, abs=0.1)
    for kind in expected.kinds:
        assert shares[kind] > 0, (kind, shares)
    codes = [noted["code"] for noted in run.passport["verdicts"]]
    assert codes.count("same-batches") == expected.same_batches
    assert codes.count("shared-sequences") == name.startswith("context")
    assert "assumed-batches" not in codes


def test_a_part_of_a_model_is_not_taken_for_the_whole(launch):
    """The process that has the tokens has the first half of the layers."""
    run = launch.pair("pipeline", launcher=PARALLEL["pipeline"].launcher).tm
    assert run.value("compute.flops.torchtitan") is None
    assert run.value("efficiency.tokens_per_s") > 0
    assert "one of 2 pipeline stages" in run.stderr


@pytest.mark.parametrize(
    ("name", "expected"), [(name, each) for name, each in PARALLEL.items() if name.startswith("megatron")]
)
def test_megatrons_config_tells_the_whole_model_of_which_a_rank_has_a_part(pair, name, expected):
    """Vocabulary, positions, two layers of four matrices with biases and two norms, a last norm and the head, width 32."""
    layer = 32 * (96 + 32 + 128 + 128) + 96 + 32 + 128 + 32 + 2 * 64
    assert pair.tm.value("model.parameters_total") == 64 * 32 + 16 * 32 + 2 * layer + 64 + 64 * 32
    assert pair.tm.value("model.shape_source") == "megatron_config"
    assert pair.tm.value("compute.flops.megatron") > 0


def test_ranks_that_share_a_sequence_have_it_whole_in_the_count(launch):
    run = launch.pair("context", launcher=PARALLEL["context"].launcher).tm
    assert run.passport["data"]["batches"]["rows"] == [[4, 16, 0, 8]]


@pytest.mark.parametrize("name", list(WITHOUT))
def test_what_cannot_be_counted_is_a_gap_and_said(launch, name):
    """Without an optimizer of torch there is no step to see: no count, not a zero that looks like one."""
    pair = launch.pair(name)
    assert pair.tm.code == pair.bare.code == 0, pair.tm.stderr
    assert pair.tm.stdout == pair.bare.stdout
    assert not pair.tm.value("data.steps")
    assert pair.tm.value("efficiency.tokens_per_s") is None
    assert pair.tm.records("steps") == []
    assert "no optimizer step of torch was seen" in pair.tm.stderr
    assert sorted(user_lines(pair.tm.stderr)) == sorted(user_lines(pair.bare.stderr))


def test_a_step_that_is_compiled_as_a_whole_counts_steps_and_no_batch(launch):
    """The model is called inside the graph, where nothing of ours runs."""
    pair = launch.pair("compiled_step")
    assert pair.tm.code == 0, pair.tm.stderr
    assert pair.tm.stdout == pair.bare.stdout
    assert pair.tm.value("data.steps") == 10
    assert pair.tm.value("data.tokens") is None
    assert pair.tm.value("efficiency.tokens_per_s") is None


@pytest.mark.parametrize("words", [("-m", "plain"), ("--", PYTHON, "-u", "-m", "plain")], ids=["-m", "python -m"])
def test_a_module_is_measured_as_the_script_is(launch, words):
    bare = launch.pair("plain").bare
    run = launch.tm(*words)
    assert (run.code, run.stdout) == (0, bare.stdout)
    assert run.value("data.steps") == PROGRAMS["plain"].steps
    assert run.value("data.tokens") == PROGRAMS["plain"].tokens


@pytest.mark.parametrize("name", ["plain", "scaler", "hf_trainer", "lightning_fit"])
def test_counting_changes_nothing_and_gives_an_hfu(launch, name):
    """The same losses, weights and random numbers as bare; the seconds it took lie in the start-up."""
    bare = launch.pair(name, *PROGRAMS[name].arguments).bare
    run = launch.tm("--count", "--peak-tflops", "0.1", str(PROGRAM_FILES / f"{name}.py"), *PROGRAMS[name].arguments)
    assert (run.code, run.stdout) == (bare.code, bare.stdout)
    [counted] = run.records("counted")
    assert (counted["gaps"], counted["absent"], len(counted["counts"])) == ([], "", 1)
    assert counted["seconds"] < run.value("time.startup_s")
    table = run.passport["data"]["batches"]
    lengths = {tuple(row[1:3]) for row in table["rows"]}
    assert (run.value("efficiency.hfu_pct") is not None) == (lengths == {tuple(counted["counts"][0][1:3])})
    assert problems(run.passport) == []


def test_a_convolutional_net_has_an_exact_count(launch):
    """By hand, of one image of 28 x 28: the first convolution's input needs no gradient."""
    run = launch.pair("images").tm
    first, second = 4 * (4 * 9) * 26 * 26, 6 * (8 * 4 * 9) * 24 * 24
    assert run.value("compute.flops.exact") == 150 * (first + second + 6 * (1152 * 16 + 16 * 10))
    assert "; --convention exact counts this model" in run.stderr  # its peak was given
