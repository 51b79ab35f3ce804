"""What stands in the runs table: the config's one entry and the summary's keys, from a passport or a row; pure."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from trainmeter_core.series import CUMULATIVE, PREFIX

Passport = Mapping[str, Any]

CONFIG_KEY = "trainmeter"

# Series name -> where the passport has the figure of the whole run.
_WHOLE_RUN: dict[str, str] = {
    "step": "data.steps",
    "steps_skipped": "data.steps_skipped",
    "tokens": "data.tokens",
    "samples": "data.samples",
    "tokens_per_s": "efficiency.tokens_per_s",
    "tokens_per_s_per_gpu": "efficiency.tokens_per_s_per_device",
    "samples_per_s": "efficiency.samples_per_s",
    "step_time_s": "efficiency.step_time_s",
    "tflops": "efficiency.tflops",
    "tflops_per_gpu": "efficiency.tflops_per_device",
    "mfu_pct": "efficiency.mfu_pct",
    "hfu_pct": "efficiency.hfu_pct",
}
_TABLES: dict[str, str] = {"ladder/": "efficiency.ladder", "mfu/": "efficiency.mfu", "time/": "time.shares"}

# Facts to group and filter runs by -> where the passport has them.
_FACTS: dict[str, str] = {
    "convention": "options.convention",
    "peak_tflops": "options.peak_tflops",
    "peak_source": "options.peak_source",
    "peak_dtype": "options.peak_dtype",
    "family": "model.family",
    "parameters": "model.parameters_total",
    "parameters_trainable": "model.parameters_trainable",
    "parameters_active": "model.parameters_active",
    "world_size": "hardware.world_size",
    "devices": "hardware.devices",
    "run_id": "identity.run_id",
    "script": "identity.script",
    "torch": "software.torch",
    "trainmeter": "software.trainmeter",
}


def summary_of(passport: Passport | None, last: Mapping[str, float]) -> dict[str, float]:
    """Give the summary's keys: rates and shares over the whole run, where the last row has those of its window.

    Sums stay those of the last row, which go on from before a resumption. What is not known has no key.
    """
    told = dict(last)
    if passport is None:
        return told
    for name, path in _WHOLE_RUN.items():
        value = found(passport, path)
        if isinstance(value, (int, float)) and not (name in CUMULATIVE and PREFIX + name in told):
            told[PREFIX + name] = value
    for prefix, path in _TABLES.items():
        told.update({PREFIX + prefix + name: value for name, value in numbers_in(passport, path)})
    flops = found(passport, "compute.flops." + str(passport["compute"]["convention"]))
    if isinstance(flops, (int, float)):
        told.setdefault(PREFIX + "flops", flops)
    return told


def config_of(passport: Passport) -> dict[str, Any]:
    """Give the facts of the run that do not change, without those that are not known."""
    facts = {name: found(passport, path) for name, path in _FACTS.items()}
    gpus = passport["hardware"]["gpus"]
    if gpus:
        facts["gpu"] = ", ".join(sorted({str(gpu["name"]) for gpu in gpus}))
    batches = passport["data"]["batches"]
    lengths = {row[1] for row in batches["rows"]} if batches else set()
    if len(lengths) == 1:
        facts["sequence_length"] = lengths.pop()
    return {name: value for name, value in facts.items() if value is not None}


def sums_in(summary: Any) -> dict[str, float]:
    """Give the sums that a resumed run ended with before."""
    told = {}
    for name in (PREFIX + each for each in CUMULATIVE):
        value = summary.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            told[name] = value
    return told


def found(passport: Passport, path: str) -> Any:
    """Give a passport's text, or the value of a number of it; None where it has none."""
    at: Any = passport
    for name in path.split("."):
        if not isinstance(at, Mapping):
            return None
        at = at.get(name)
    return at.get("value") if isinstance(at, Mapping) else at


def numbers_in(passport: Passport, path: str) -> Iterator[tuple[str, float]]:
    """The known numbers of one of the passport's tables, by name."""
    table: Any = passport
    for name in path.split("."):
        table = table[name]
    for name, number in table.items():
        if number is not None:
            yield name, number["value"]
