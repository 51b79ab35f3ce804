"""Derived numbers of a passport worked out in the open: formula, the numbers put in, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, NamedTuple

from trainmeter_core.readings import Absent

from .sheet import reading

if TYPE_CHECKING:
    from .sheet import Json, Value


class Worked(NamedTuple):
    """One number: its field, the formula in words, and the same with its inputs and the result."""

    field: str
    formula: str
    numbers: str


def worked(passport: Json) -> Iterator[Worked]:
    """Every formula whose inputs are all known, in the order in which one needs the other."""
    name = passport["options"]["convention"]

    def known(field: str) -> Value:
        return reading(passport, field)

    def line(field: str, formula: str, numbers: str, *inputs: str) -> Iterator[Worked]:
        result = known(field)
        values = [known(each) for each in inputs]
        if not isinstance(result, Absent) and not any(isinstance(value, Absent) for value in values):
            filled = numbers.format(*(exact(value) for value in values if not isinstance(value, Absent)))
            yield Worked(field, formula, f"{filled} = {exact(result)}")

    yield from line(
        "compute.flops_per_token." + name, "FLOPs / tokens", "{} / {}", "compute.flops." + name, "data.tokens"
    )
    yield from _required(passport, line, name)
    yield from line(
        "efficiency.tokens_per_s", "steady tokens / steady seconds", "{} / {}", "steady.tokens", "steady.seconds"
    )
    yield from line(
        "efficiency.step_time_s", "steady seconds / steady steps", "{} / {}", "steady.seconds", "steady.steps"
    )
    yield from line(
        "efficiency.tflops", "steady FLOPs / steady seconds / 1e12", "{} / {} / 1e12",
        "compute.steady_flops." + name, "steady.seconds",
    )  # fmt: skip
    yield from line(
        "efficiency.mfu_pct",
        "100 x steady FLOPs / (steady seconds x devices x peak x 1e12)",
        "100 x {} / ({} x {} x {} x 1e12)",
        "compute.steady_flops." + name, "steady.seconds", "hardware.devices", "options.peak_tflops",
    )  # fmt: skip
    yield from _shares(passport)


def _required(passport: Json, line: object, name: str) -> Iterator[Worked]:
    options = passport["options"]
    if options["budget_flops"] is not None or not callable(line):
        return
    if options["budget_tokens"] is not None:
        yield from line(
            "compute.required", "FLOPs per token x tokens of the budget", "{} x {}",
            "compute.flops_per_token." + name, "options.budget_tokens",
        )  # fmt: skip
    elif options["budget_steps"] is not None:
        yield from line(
            "compute.required", "FLOPs x steps of the budget / steps", "{} x {} / {}",
            "compute.flops." + name, "options.budget_steps", "data.steps",
        )  # fmt: skip
    elif options["budget_hours"] is not None:
        yield from line(
            "compute.required", "steady FLOPs / steady seconds x hours of the budget x 3600", "{} / {} x {} x 3600",
            "compute.steady_flops." + name, "steady.seconds", "options.budget_hours",
        )  # fmt: skip


def _shares(passport: Json) -> Iterator[Worked]:
    """The largest share of the time stands for all of them."""
    spent = {kind: each["value"] for kind, each in passport["time"]["rank_seconds"].items() if each is not None}
    if not spent or not any(spent.values()):
        return
    kind = max(spent, key=lambda each: spent[each])
    terms = " + ".join(exact(value) for value in spent.values() if value)
    share = reading(passport, "time.shares." + kind)
    if not isinstance(share, Absent):
        formula = f"100 x seconds of {kind.replace('_', ' ')} / seconds of all kinds"
        yield Worked("time.shares." + kind, formula, f"100 x {exact(spent[kind])} / ({terms}) = {exact(share)}")


def exact(value: float) -> str:
    """A number that a calculator takes: integers in full, others with nine digits."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"
