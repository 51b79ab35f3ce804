"""The run directory's files and the record types of log.jsonl, in one table.

run.json is one object, written first; log.jsonl is append-only, one JSON object per line, each with "type" and "t"
(seconds since the epoch). A reader ignores types and fields it does not know, so that a log may grow new ones.
"""

from __future__ import annotations

from typing import NamedTuple

FORMAT = "trainmeter-run/1"
RUN_FILE = "run.json"
LOG_FILE = "log.jsonl"
NEW_LOG_FILE = ".log.jsonl.new"
"""A log that is being merged, until it takes the log's place; one that is left over is of no use."""
PASSPORT_FILE = "passport.json"
PASSPORT_MARKDOWN_FILE = "passport.md"
LOCAL_TRACKER_DIRECTORY = "tb"
PENDING = "pending-{tracker}.jsonl"
"""What an adapter, by its name, could not send while the run lasted; gone once `tm publish` has sent it."""


class Field(NamedTuple):
    """One field of a record: its JSON type, whether every record of the type has it, and its meaning."""

    name: str
    type: str
    required: bool
    meaning: str


RUN_FIELDS: tuple[Field, ...] = (
    Field("format", "string", True, f'always "{FORMAT}"'),
    Field("run_id", "string", True, "the last part of the directory's name, or the launcher's own id of the job"),
    Field("name", "string", False, "the user's name for the run"),
    Field("script", "string", True, "script, module or command as written, secrets taken out"),
    Field("command", "list of strings", True, "the whole command line, secrets taken out"),
    Field("started", "number", True, "seconds since the epoch"),
    Field("jobs", "list of strings", False, "names of the job or the tracker's run: the same name is the same run"),
    Field("beside", "string", False, "id of the run beside which this training was started, by the same command"),
    Field("git_commit", "string or null", False, "commit of the script's repository"),
    Field("git_dirty", "boolean or null", False, "whether that repository had changes"),
    Field("trainmeter", "string", True, "version of trainmeter"),
    Field("convention", "string or null", False, "FLOPs convention of the headline"),
    Field("peak_tflops", "number or null", False, "dense peak of one device, TFLOP/s"),
    Field("peak_source", "string or null", False, '"user" for --peak-tflops, else the row of the device table'),
    Field("peak_dtype", "string or null", False, "dtype that the peak belongs to"),
    Field("budget_tokens", "integer or null", False, "the run's goal in tokens"),
    Field("budget_steps", "integer or null", False, "the run's goal in optimizer steps"),
    Field("budget_flops", "number or null", False, "the run's goal in FLOPs"),
    Field("budget_hours", "number or null", False, "the run's goal in hours"),
    Field("budget_source", "string or null", False, '"user", or the framework that the goal was read from'),
)

_RANK = Field("rank", "integer", True, "global rank of the process")

RECORDS: dict[str, tuple[Field, ...]] = {
    "process": (
        _RANK,
        Field("local_rank", "integer", True, "rank on its node"),
        Field("world_size", "integer", True, "number of ranks"),
        Field("pid", "integer", True, "process id; a new one for the same rank is a restart"),
        Field("python", "string", False, "version of the trainer's Python"),
        Field("torch", "string", False, "version of the trainer's torch"),
        Field("started", "number", False, "process start, seconds since the epoch"),
        Field("made_before", "integer or null", False, "steps that its optimizer counts from before; null: not known"),
        Field("loads", "integer", False, "how often something was loaded before the first step"),
        Field("loaded", "list of strings", False, "files that were loaded: inode number and size"),
        Field("parent", "integer", False, "the process that started it"),
        Field("program", "integer", False, "its own id, or that of the program that made it by a fork or a pool"),
        Field("command", "list of strings", False, "its command line, secrets taken out"),
        Field("rendezvous", "string", False, "address and port at which the ranks meet"),
        Field("elastic", "string", False, "torchrun's id of the job"),
    ),
    "model": (
        _RANK,
        Field("description", "object", True, "what the agent saw of the model: its config and the shapes of its parts"),
        Field("shape_source", "string or null", False, "where the shape was taken from"),
        Field("gpus", "list of strings", False, "the GPUs it lies on: UUIDs as torch prints them, or its device names"),
    ),
    "parallel": (
        _RANK,
        Field("batch_ranks", "integer", True, "ranks that work on one batch together: tensor, pipeline, context"),
        Field("counts", "boolean", True, "whether this one counts the batch for the others"),
    ),
    "budget": (
        _RANK,
        Field("budget_steps", "integer", True, "optimizer steps that the program's framework means to make from here"),
        Field("budget_source", "string", True, "the framework and its setting; a goal given to tm goes before it"),
    ),
    "counted": (
        _RANK,
        Field("counts", "list of [B, T, T2, FLOPs]", True, "micro-batches that were run on a copy without data"),
        Field("gaps", "list of strings", True, "operations that ran there and have no formula, with how often"),
        Field("seconds", "number", True, "what the counting took, within startup"),
        Field("absent", "string", False, "why there is no count"),
    ),
    "steps": (
        _RANK,
        Field("pid", "integer", True, "process id"),
        Field("first", "integer or null", True, "number of the first optimizer step in the block"),
        Field("last", "integer or null", True, "number of the last one"),
        Field("n", "integer", True, "finished steps, skipped ones not among them; 0 for the tail after the last step"),
        Field("skipped", "integer", False, "steps that a gradient scaler skipped"),
        Field("tokens", "integer or null", True, "local tokens; null when a step's batch was not seen"),
        Field("samples", "integer or null", True, "local sequences or images; null when not seen"),
        Field("micro_batches", "integer or null", True, "forward passes in training"),
        Field("wall_s", "number", True, "host clock, end of the step before to the end of the last one, seconds"),
        Field("time", "object", True, "seconds by kind of time; null for a kind that cannot be observed here"),
        Field("batches", "list of [B, T, T2, calls]", True, "sequences, length, target length or 0, forward passes"),
        Field("step_time_s", "[min, max] or null", False, "shortest and longest step of the block, seconds"),
        Field("startup", "boolean", False, "the block from process start to the end of the first step"),
    ),
    "span": (
        _RANK,
        Field("kind", "string", True, "checkpoint, eval or another kind of time; its seconds are in steps already"),
        Field("start", "number", True, "seconds since the epoch"),
        Field("seconds", "number", True, "duration"),
    ),
    "saved": (
        _RANK,
        Field("pid", "integer", True, "process id"),
        Field("step", "integer", True, "optimizer steps that the process had made"),
        Field("mark", "string", True, 'the checkpoint\'s inode number and size; "" where it is no file of the node'),
    ),
    "losses": (
        _RANK,
        Field(
            "tags", "object", True, "name to {first, last, best: [value or null, step or null], count} of the process"
        ),
    ),
    "tracker": (
        _RANK,
        Field("tracker", "string", True, "name of the adapter"),
        Field("where", "object of strings", True, "log directory, run id, URL"),
    ),
    "blocked": (
        _RANK,
        Field("pid", "integer", True, "process id"),
        Field("call", "string", True, "a tracker's call that the user makes"),
        Field("seconds", "number", True, "how long it has blocked the training thread so far"),
        Field("advice", "string", False, "what helps"),
    ),
    "node": (Field("readings", "object", True, "name to number, nested as the sampler likes"),),
    "gpu": (
        Field("gpus", "object", True, "UUID to {name: number}, means over the interval"),
        Field("seconds", "number", False, "length of the interval that ends at t"),
    ),
    "span_sums": (
        _RANK,
        Field("kind", "string", True, "as in a span"),
        Field("sums", "[count, sum, min, max]", True, "of the seconds of older spans that were merged"),
    ),
    "node_sums": (
        Field("readings", "object", True, "name to [count, sum, min, max] of older samples that were merged"),
    ),
    "gpu_sums": (
        Field("gpus", "object", True, "UUID to {name: [count, sum, min, max]} of older samples that were merged"),
        Field("seconds", "number", True, "from the begin of the first interval to t"),
    ),
    "merged": (
        Field("every_s", "number", True, "what stands above was merged into windows of so many seconds"),
        Field("lines", "integer", True, "lines that stood there before, less those that do now"),
    ),
    "verdict": (
        Field("code", "string", True, "a stable name of what was seen to go wrong while the run went on"),
        Field("level", "string", True, "error, warning or info"),
        Field("sentence", "string", True, "what it means"),
    ),
    "hardware": (
        Field("gpus", "list of {name, uuid}", False, "the GPUs of this job; an empty list is a run without one"),
        Field("driver", "string", False, "GPU driver"),
        Field("cuda", "string", False, "CUDA version"),
        Field("cpu", "string", False, "CPU model"),
        Field("cpu_cores", "integer", False, "cores that the run may use"),
        Field("memory_bytes", "integer", False, "memory that the run may use"),
        Field("interconnect", "string", False, "link between the GPUs"),
        Field("gpus_absent", "string", False, "why no GPU can be seen"),
        Field("gpus_assumed", "string", False, "what was assumed to tell which GPUs are the job's"),
        Field("reference_mhz", "number", False, "SM clock at which the peak of the GPUs holds"),
        Field("bandwidth_bytes_per_s", "number", False, "peak memory bandwidth of one GPU"),
        Field("peak_tflops", "number", False, "dense peak of one device from the table, where the user gave none"),
        Field("peak_source", "string", False, "row of the device table"),
        Field("peak_dtype", "string", False, "dtype that the peak belongs to"),
        Field("peak_absent", "string", False, "why the table gives no peak"),
    ),
    "failure": (
        Field("site", "string", True, "where trainmeter itself failed inside the user's process"),
        Field("count", "integer", True, "how often so far, in this process"),
        Field("first", "string", True, "the first message"),
        Field("rank", "integer", False, "rank of the process"),
        Field("pid", "integer", False, "process id"),
    ),
    "dropped": (
        Field("rank", "integer", False, "global rank of the process that lost step records"),
        Field("records", "integer", False, "step records lost unread since the last such record"),
        Field("kind", "string", False, "type of another record that was too long to keep"),
        Field("bytes", "integer", False, "its length"),
    ),
    "recovered": (Field("steps", "integer", True, "steps carried over after tm had been killed"),),
    "resumed": (
        Field("started", "number", True, "seconds since the epoch"),
        Field("command", "list of strings", True, "the command line that goes on with the run, secrets taken out"),
        Field("how", "string", True, "how it is known to be the same run"),
        Field("git_commit", "string or null", False, "commit of the script's repository; options as in run.json"),
    ),
    "exit": (
        Field("code", "integer or null", True, "exit code; null for a death by signal, or where it cannot be seen"),
        Field("signal", "integer or null", True, "signal that ended the run"),
        Field("seconds", "number", True, "start to end"),
    ),
}
"""Every record also has "type" and "t", seconds since the epoch."""
