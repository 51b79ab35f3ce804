"""A run record from what a W&B run tells, also of a run that never saw trainmeter; pure.

What it does not tell is Absent, and nothing is guessed: tokens come from a series that counts them, or from a config
whose batch is exact; the speed from two rows of such a series; the peak only where GPU and number format are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.devices import lookup
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RankTotals, RunRecord
from trainmeter_core.series import PREFIX

from .place import TRACKER

if TYPE_CHECKING:
    from trainmeter_core.run_tables import Statistics

    from .seen import SeenRun, Track

_STEPS = (PREFIX + "step", "train/global_step", "trainer/global_step", "global_step", "step", "iteration", "iter")
_TOKENS = (
    PREFIX + "tokens", "train/num_input_tokens_seen", "num_input_tokens_seen", "num_tokens", "tokens_seen",
    "train/tokens_seen", "total_tokens", "train/total_tokens", "n_tokens_seen", "consumed_tokens", "tokens",
    "train/tokens",
)  # fmt: skip
_LENGTHS = ("sequence_length", "block_size", "sequence_len", "seq_len", "seq_length", "max_seq_len", "max_seq_length")
_WORLD = ("world_size", "ddp_world_size", "num_processes")

# The client's name of a counter -> the name of ours. Those of the profiling counters cover 200 ms of every 15 s.
_GPU_READINGS = {
    "gpu": "gpu_util_pct",
    "memoryAllocatedBytes": "mem_used_bytes",
    "temp": "temp_c",
    "powerWatts": "power_w",
    "enforcedPowerLimitWatts": "power_limit_w",
    "smClock": "sm_clock_mhz",
    "memoryClock": "mem_clock_mhz",
    "smActive": "sm_active_pct",
    "smOccupancy": "sm_occupancy_pct",
    "pipeTensorActive": "tensor_active_pct",
    "dramActive": "dram_active_pct",
    "pipeFp64Active": "fp64_active_pct",
    "pipeFp32Active": "fp32_active_pct",
    "pipeFp16Active": "fp16_active_pct",
}
_SAMPLED = ("smActive", "pipeTensorActive", "dramActive")


def record_of(run: SeenRun) -> RunRecord:
    """Give the record of one run."""
    record = RunRecord()
    _identity(record, run)
    _machine(record, run)
    _model(record, run)
    _options(record, run)
    _totals(record, run)
    record.losses = dict(run.losses)
    record.gpus = _gpu_readings(run.system)
    record.end.code = Absent("the tracker has no exit code") if run.exit_code is None else run.exit_code
    record.end.signal = Absent("ended by itself" if run.exit_code is not None else "the tracker has none")
    if run.last_seen is not None:
        record.last_seen = run.last_seen
    return record


def _identity(record: RunRecord, run: SeenRun) -> None:
    known, meta = record.identity, run.metadata
    known.run_id = run.run_id or Absent("the tracker has no run id")
    known.name = run.name or Absent("the run has no name")
    program = meta.get("codePath") or meta.get("program")
    known.script = str(program) if program else Absent("the tracker does not tell the script")
    if run.started is not None:
        known.started = run.started
    git = meta.get("git")
    if isinstance(git, Mapping) and git.get("commit"):
        known.git_commit = str(git["commit"])
    where = {"id": run.run_id, "entity": run.entity, "project": run.project}
    record.trackers = [{"tracker": TRACKER, "where": {name: value for name, value in where.items() if value}}]


def _machine(record: RunRecord, run: SeenRun) -> None:
    meta = run.metadata
    python = str(meta.get("python") or "").replace("CPython ", "")
    record.software.python = python or Absent("the tracker does not tell it")
    if meta.get("cudaVersion"):
        record.software.cuda = str(meta["cudaVersion"])
    if meta.get("cpu_count"):
        record.hardware.cpu_cores = int(meta["cpu_count"])
    memory = meta.get("memory")
    if isinstance(memory, Mapping) and memory.get("total"):
        record.hardware.memory_bytes = int(memory["total"])
    world = _first(run.config, _WORLD)
    record.world_size = world or Absent("neither config nor tracker tells the number of processes")
    record.hardware.gpus = _gpus(run, world)


def _gpus(run: SeenRun, world: int | None) -> list[str] | Absent:
    """The GPUs that the run used. The client lists all of one node, and marks those of the run's own processes."""
    listed = run.metadata.get("gpu_nvidia")
    names = [str(gpu.get("name") or "") for gpu in listed] if isinstance(listed, list) else []
    if not names:
        return Absent("the tracker lists no GPU")
    used = sorted({int(key.split(".")[2]) for key in run.system if key.startswith("gpu.process.")})
    if used and used[-1] < len(names):
        names = [names[index] for index in used]
    elif len(names) > 1:
        return Absent(f"which of the node's {len(names)} GPUs the run used is not told")
    if world is not None and world > len(names):
        return Absent(f"the run had {world} processes, and the tracker lists the GPUs of one node")
    return names


def _model(record: RunRecord, run: SeenRun) -> None:
    config = _plain(run.config)
    kinds = ("model_type", "n_layer", "n_embd", "num_hidden_layers", "hidden_size", "dim", "n_layers")
    for candidate in (config, *(value for value in config.values() if isinstance(value, dict))):
        if any(candidate.get(name) for name in kinds):
            architectures = candidate.get("architectures") or [""]
            record.model = {"class": str(architectures[0]), "config": candidate}
            return
    record.model = Absent("the run's config does not describe the model")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a config that a model's description may hold."""
    return {
        str(name): _plain(value) if isinstance(value, Mapping) else value
        for name, value in config.items()
        if value is None or isinstance(value, (str, int, float, bool, list, Mapping))
    }


def _options(record: RunRecord, run: SeenRun) -> None:
    known = record.options
    told = run.config.get("trainmeter")
    if isinstance(told, Mapping):
        for name in ("convention", "peak_tflops", "peak_source", "peak_dtype"):
            if told.get(name) is not None:
                setattr(known, name, told[name])
        if isinstance(told.get("world_size"), int):
            record.world_size = told["world_size"]
    gpus = record.hardware.gpus
    if not isinstance(known.peak_tflops, Absent) or isinstance(gpus, Absent) or len(set(gpus)) != 1:
        return
    dtype = _dtype(run.config)
    device = lookup(gpus[0])
    if dtype is None or isinstance(device, Absent):
        known.peak_tflops = device if isinstance(device, Absent) else Absent("the config does not tell the dtype")
        return
    peak = device.peak(dtype)
    if isinstance(peak, Absent):
        known.peak_tflops = peak
        return
    known.peak_tflops, known.peak_dtype, known.peak_source = peak.tflops, peak.dtype, peak.source


def _dtype(config: Mapping[str, Any]) -> str | None:
    for name in ("bf16", "fp16"):
        if config.get(name) is True:
            return name
    for name in ("mixed_precision", "precision", "dtype", "torch_dtype"):
        value = config.get(name)
        if isinstance(value, str):
            found = value.replace("torch.", "").replace("-mixed", "").replace("-true", "")
            return {"32": "float32", "16": "fp16"}.get(found, found)
    return None


def _totals(record: RunRecord, run: SeenRun) -> None:
    steps, tokens = _series(run, _STEPS), _series(run, _TOKENS)
    if steps is None:
        return
    totals = record.summed = RankTotals(steps=int(steps.high), last_step=int(steps.high), processes=1)
    totals.samples = totals.micro_batches = Absent("the tracker does not count them")
    per_step = _tokens_per_step(run.config)
    if tokens is not None:
        totals.tokens = int(tokens.high)
    elif per_step is not None:
        totals.tokens = int(steps.high) * per_step
    else:
        totals.tokens = Absent("no series counts tokens, and the config does not tell the batch")
    totals.startup_s = Absent("the tracker does not tell it")
    _steady(totals, steps, tokens, per_step)
    length = _first(run.config, _LENGTHS)
    told = run.config.get("trainmeter")
    if length is None and isinstance(told, Mapping):
        length = _first(told, ("sequence_length",))
    if length is not None:
        totals.samples = _add_batches(record.batches, totals.tokens, length)
        totals.steady_samples = _add_batches(record.steady_batches, totals.steady_tokens, length)


def _steady(totals: RankTotals, steps: Track, tokens: Track | None, per_step: int | None) -> None:
    """From the first to the last row that counts: whole steps, everything between them included."""
    totals.steady_tokens = totals.steady_samples = Absent("two rows with a count of tokens are needed")
    begin, end = steps.first, steps.last
    if begin.time is None or end.time is None or end.time <= begin.time or end.value <= begin.value:
        return
    totals.steady_steps = int(end.value - begin.value)
    totals.steady_wall_s = end.time - begin.time
    if tokens is None:
        if per_step is not None:
            totals.steady_tokens = totals.steady_steps * per_step
    elif (tokens.first.row, tokens.last.row) == (begin.row, end.row):
        totals.steady_tokens = int(tokens.last.value - tokens.first.value)
    elif tokens.first.time is not None and tokens.last.time is not None and tokens.last.time > tokens.first.time:
        rate = (tokens.last.value - tokens.first.value) / (tokens.last.time - tokens.first.time)
        totals.steady_tokens = int(rate * totals.steady_wall_s)


def _tokens_per_step(config: Mapping[str, Any]) -> int | None:
    """Batch x length x accumulation of a config in which they say all of it: a packed GPT in the style of nanoGPT."""
    batch, length = config.get("batch_size"), config.get("block_size")
    accumulation = config.get("gradient_accumulation_steps", 1)
    if not all(isinstance(value, int) and value > 0 for value in (batch, length, accumulation)):
        return None
    if not isinstance(config.get("n_layer"), int):
        return None
    return int(batch) * int(length) * int(accumulation)  # type: ignore[arg-type]  # checked above


def _add_batches(batches: Any, tokens: Any, length: int) -> Any:
    """Whole sequences of one length, as the config says; Absent where the tokens are not a multiple of it."""
    if isinstance(tokens, Absent):
        return tokens
    if tokens % length:
        return Absent("the tokens are no multiple of the config's sequence length: sequences differ")
    if tokens:
        batches.add(1, length, 0, tokens // length)
    return tokens // length


def _series(run: SeenRun, names: tuple[str, ...]) -> Track | None:
    return next((run.series[name] for name in names if name in run.series), None)


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _gpu_readings(system: Mapping[str, Statistics]) -> dict[str, dict[str, Statistics]]:
    """The client's own counters by GPU; where profiling counters are among them, the GPU's name says how they came."""
    found: dict[str, dict[str, Statistics]] = {}
    for key, statistics in system.items():
        parts = key.split(".")
        if len(parts) == 3 and parts[0] == "gpu" and parts[1].isdigit() and parts[2] in _GPU_READINGS:  # noqa: PLR2004
            sampled = any(f"gpu.{parts[1]}.{name}" in system for name in _SAMPLED)
            name = f"gpu {parts[1]}" + (" (200 ms samples)" if sampled else "")
            found.setdefault(name, {})[_GPU_READINGS[parts[2]]] = statistics
    return found
