"""`tm flops`: a model's training FLOPs under every convention, side by side, and each line of a count."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.flops import CONVENTIONS, HEADLINE, explain, flops_per_token, training_flops
from trainmeter_core.readings import Absent

from .model_source import COUNT, NO_MODEL, REAL, batch_of, devices_of, model_of, model_options, needs_target

if TYPE_CHECKING:
    from trainmeter_core.devices import Peak
    from trainmeter_core.model_shape import Batch, ModelShape

ALL = "*"


@click.command("flops")
@model_options
@click.option("--batch", type=COUNT, default=1, metavar="B", help="sequences in a batch (default: 1)")
@click.option("--target-len", type=COUNT, default=0, metavar="T", help="decoder tokens of an encoder-decoder")
@click.option("--tokens", type=COUNT, metavar="N", help="tokens of the whole run: its FLOPs in all (20B, 1.5T)")
@click.option("--gpus", metavar="NxNAME", help="the time that takes, 8xH100-SXM")
@click.option("--mfu", type=REAL, metavar="PCT", help="at this MFU instead of the peak (percent)")
@click.option("--dtype", default="bf16", metavar="NAME", help="number format of the matmuls (default: bf16)")
@click.option("--convention", type=click.Choice(list(CONVENTIONS)), metavar="NAME", help="only this convention")
@click.option("--explain", "explained", is_flag=False, flag_value=ALL, metavar="[NAME]", help="each line of the counts")
@click.option("--json", "as_json", is_flag=True, help="one JSON object")
def command(batch: int, target_len: int, as_json: bool, explained: str | None, **given: Any) -> None:
    """Training FLOPs of a model: every convention side by side.

    \b
    tm flops --hf-config config.json --seq-len 4096
    tm flops --hf-config config.json --explain megatron
    tm flops --params 8B --layers 32 --width 4096 --seq-len 8192 --gpus 8xH100-SXM --tokens 20B
    """  # noqa: D301 - click knows a block of examples by the character
    model = model_of(given)
    if model is None:
        raise click.UsageError(NO_MODEL)
    shape, seq_len = model
    asked = batch_of(shape, batch, seq_len, target_len)
    if explained not in (None, ALL, *CONVENTIONS):
        raise click.UsageError(f"no convention {explained!r}; there are {', '.join(CONVENTIONS)}")
    table: dict[str, Any] = {
        "model": _model(shape),
        "batch": {"sequences": asked.sequences, "seq_len": asked.seq_len, "target_len": asked.target_len},
        "conventions": [_row(name, shape, asked, given) for name in _names(given["convention"], explained)],
    }
    if explained is not None:
        table["terms"] = {row["name"]: _terms(row["name"], shape, asked) for row in table["conventions"]}
    if as_json:
        click.echo(json.dumps(table))
    elif sys.stdout.isatty():
        _draw(table)
    else:
        _print(table)


def _names(convention: str | None, explained: str | None) -> list[str]:
    if explained in (None, ALL):
        return [convention] if convention else list(CONVENTIONS)
    return list(dict.fromkeys([str(explained), *([convention] if convention else [])]))


def _model(shape: ModelShape) -> dict[str, Any]:
    def known(value: Any) -> Any:
        return None if isinstance(value, Absent) else value

    active = shape.parameters if isinstance(shape.parameters, Absent) else shape.parameters - shape.inactive_parameters
    return {"family": shape.family, "parameters": known(shape.parameters), "active_parameters": known(active)}


def _row(name: str, shape: ModelShape, batch: Batch, given: dict[str, Any]) -> dict[str, Any]:
    """FLOPs per token, of the batch, and of the run; hours where GPUs are given. None, and a reason, where absent."""
    row: dict[str, Any] = {"name": name, "headline": name == HEADLINE, "meaning": CONVENTIONS[name].meaning}
    flops, per_token = training_flops(name, shape, batch), flops_per_token(name, shape, batch)
    if isinstance(flops, Absent) or isinstance(per_token, Absent):
        advice = "; give --target-len" if name == "exact" and needs_target(shape, batch) else ""
        return {**row, "flops_per_token": None, "flops": None, "absent": f"{flops}{advice}"}
    row |= {"flops_per_token": per_token, "flops": flops}
    if given["tokens"]:
        row["run_flops"] = flops * given["tokens"] // batch.tokens
    if given["gpus"]:
        many, device = devices_of(given["gpus"])
        peak = device.peak(given["dtype"])
        if isinstance(peak, Absent):
            raise click.UsageError(peak.reason.replace("; give --peak-tflops", ""))
        row |= _time(row.get("run_flops", flops), many, peak, given["mfu"] or 100.0)
    return row


def _time(flops: int, many: int, peak: Peak, mfu: float) -> dict[str, Any]:
    seconds = flops / (many * peak.flops_per_s * mfu / 100)
    return {"hours": seconds / 3600, "mfu_pct": mfu, "peak_tflops": peak.tflops, "peak_source": peak.source}


def _terms(name: str, shape: ModelShape, batch: Batch) -> list[dict[str, Any]] | None:
    terms = explain(name, shape, batch)
    return None if isinstance(terms, Absent) else [term._asdict() for term in terms]


def _cells(row: dict[str, Any]) -> list[str]:
    if row["flops"] is None:
        return [row["name"], row["absent"]]
    cells = [row["name"], f"{row['flops_per_token']:,}", f"{row['flops']:,}"]
    if "run_flops" in row:
        cells.append(f"{row['run_flops']:.4e}")
    if "hours" in row:
        cells.append(f"{row['hours']:,.4g}")
    return cells


def _columns(table: dict[str, Any]) -> list[str]:
    some: dict[str, Any] = next((row for row in table["conventions"] if row["flops"] is not None), {})
    each = "token" if table["batch"]["seq_len"] > 1 else "sample"
    columns = ["convention", f"FLOPs per {each}", "FLOPs per batch"]
    if "run_flops" in some:
        columns.append("FLOPs of the run")
    if "hours" in some:
        columns.append(f"hours at {some['mfu_pct']:g} % of {some['peak_tflops']:g} TFLOP/s")
    return columns


def _print(table: dict[str, Any]) -> None:
    click.echo("\t".join(_columns(table)))
    for row in table["conventions"]:
        click.echo("\t".join(_cells(row)))
    for line in _explained(table):
        click.echo(line)


def _explained(table: dict[str, Any]) -> list[str]:
    """Every line of every count, and with two or more what each of the later ones has that the first has not."""
    terms: dict[str, Any] = table.get("terms", {})
    lines: list[str] = []
    for name, count in terms.items():
        if count is None:
            continue
        lines += ["", f"{name}: {CONVENTIONS[name].meaning}", f"  {CONVENTIONS[name].source}"]
        lines += [f"  {term['flops']:>24,}  {term['term']}: {term['formula']}" for term in count]
        lines.append(f"  {sum(term['flops'] for term in count):>24,}  in all")
    counts = [(name, _by_term(count)) for name, count in terms.items() if count]
    for (first, one), (second, other) in zip(counts, counts[1:]):
        lines += ["", f"{second} - {first}:"]
        differences = {term: other.get(term, 0) - one.get(term, 0) for term in {**one, **other}}
        lines += [f"  {flops:>+24,}  {term}" for term, flops in differences.items() if flops]
    return lines


def _by_term(count: list[dict[str, Any]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for term in count:
        sums[term["term"]] = sums.get(term["term"], 0) + term["flops"]
    return sums


def _draw(table: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    model, batch = table["model"], table["batch"]
    parameters = "n/a" if model["parameters"] is None else f"{model['parameters']:,} parameters"
    if model["active_parameters"] != model["parameters"]:
        parameters += f", {model['active_parameters']:,} active"
    title = f"{model['family']}: {parameters}; {batch['sequences']} x {batch['seq_len']} tokens"
    drawn = Table(*_columns(table), title=title, box=None)
    for column in drawn.columns[1:]:
        column.justify = "right"
    for row in table["conventions"]:
        drawn.add_row(*_cells(row), style="bold" if row["headline"] else None)
    console = Console()
    console.print(drawn)
    for line in _explained(table):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
