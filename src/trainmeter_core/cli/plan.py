"""`tm plan`: what a run needs before it is started, or what fits in the hours there are."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core import plan
from trainmeter_core.flops import CONVENTIONS, HEADLINE, training_flops
from trainmeter_core.readings import Absent

from .model_source import COUNT, NO_MODEL, REAL, batch_of, devices_of, model_of, model_options, needs_target

if TYPE_CHECKING:
    from trainmeter_core.devices import Device
    from trainmeter_core.model_shape import Batch, ModelShape

_GIB = 2**30


@click.command("plan")
@model_options
@click.option("--tokens", type=COUNT, metavar="N", help="tokens to train on (20B, 1.5T)")
@click.option("--hours", type=REAL, metavar="H", help="the other way round: what fits in H hours")
@click.option("--gpus", required=True, metavar="NxNAME", help="the devices: 8xH100-SXM, 64xH200-SXM, 6144xTPU v4")
@click.option("--mfu", type=REAL, metavar="PCT", help=f"expected MFU in percent (default: {plan.DEFAULT_MFU:g})")
@click.option("--dtype", default="bf16", metavar="NAME", help="number format of the matmuls (default: bf16)")
@click.option("--convention", type=click.Choice(list(CONVENTIONS)), default=HEADLINE, metavar="NAME", help="of the MFU")
@click.option("--micro-batch", type=COUNT, default=1, metavar="B", help="sequences per device at once (default: 1)")
@click.option("--target-len", type=COUNT, default=0, metavar="T", help="decoder tokens of an encoder-decoder")
@click.option("--no-shard", is_flag=True, help="every device holds the whole model, gradients and optimizer states")
@click.option("--json", "as_json", is_flag=True, help="one JSON object")
def command(as_json: bool, **given: Any) -> None:
    """A run before it is started: FLOPs, hours, GPU-hours, tokens per parameter, memory.

    \b
    tm plan --hf-config config.json --tokens 20B --gpus 8xH100-SXM
    tm plan --hf-config config.json --hours 24 --gpus 8xH100-SXM --mfu 45
    tm plan --hours 24 --gpus 8xH100-SXM      the compute-optimal model for that
    """  # noqa: D301 - click knows a block of examples by the character
    model = model_of(given)
    if (given["tokens"] is None) == (given["hours"] is None):
        raise click.UsageError("give --tokens N, or --hours H for what fits in them")
    if model is None and given["hours"] is None:
        raise click.UsageError(NO_MODEL)
    found = _planned(model, given)
    if as_json:
        click.echo(json.dumps(found))
    elif sys.stdout.isatty():
        _draw(found)
    else:
        for name, value in _lines(found):
            click.echo(f"{name}\t{value}")


def _planned(model: tuple[ModelShape, int] | None, given: dict[str, Any]) -> dict[str, Any]:
    many, device = devices_of(given["gpus"])
    peak = device.peak(given["dtype"])
    if isinstance(peak, Absent):
        raise click.UsageError(peak.reason.replace("; give --peak-tflops", ""))
    mfu = given["mfu"] or plan.DEFAULT_MFU
    found: dict[str, Any] = {
        "devices": many,
        "device": device.name,
        "peak_tflops": peak.tflops,
        "peak_dtype": peak.dtype,
        "peak_source": peak.source,
        "mfu_pct": mfu,
        "mfu_source": "given" if given["mfu"] else "assumed; published runs reached what typical_mfu lists",
        "typical_mfu": [each._asdict() for each in plan.TYPICAL_MFU],
    }
    if model is None:
        flops = plan.flops_in(given["hours"] * 3600, many, peak.flops_per_s, mfu)
        parameters = plan.optimal_parameters(flops)
        tokens = plan.TOKENS_PER_PARAMETER * parameters
        return {
            **found,
            "flops": flops,
            "hours": given["hours"],
            "device_hours": given["hours"] * many,
            "optimal_parameters": round(parameters),
            "tokens": round(tokens),
            "tokens_per_s": tokens / given["hours"] / 3600,
        }
    shape, seq_len = model
    batch = batch_of(shape, given["micro_batch"], seq_len, given["target_len"])
    in_batch = training_flops(given["convention"], shape, batch)
    if isinstance(in_batch, Absent):
        raise click.UsageError(f"no FLOPs under {given['convention']}: {in_batch.reason}{_instead(shape, batch)}")
    if given["tokens"] is None:
        tokens = int(plan.flops_in(given["hours"] * 3600, many, peak.flops_per_s, mfu) * batch.tokens / in_batch)
    else:
        tokens = given["tokens"]
    needed = tokens * in_batch / batch.tokens
    seconds = plan.seconds_for(needed, many, peak.flops_per_s, mfu)
    active = None if isinstance(shape.parameters, Absent) else shape.parameters - shape.inactive_parameters
    return {
        **found,
        "family": shape.family,
        "convention": given["convention"],
        "parameters": None if isinstance(shape.parameters, Absent) else shape.parameters,
        "active_parameters": active,
        "seq_len": batch.seq_len,
        "tokens": tokens,
        "tokens_per_parameter": tokens / active if active else None,
        "optimal_tokens": plan.TOKENS_PER_PARAMETER * active if active else None,
        "flops_per_token": in_batch / batch.tokens,
        "flops": needed,
        "hours": seconds / 3600,
        "device_hours": seconds / 3600 * many,
        "tokens_per_s": tokens / seconds,
        "memory": _memory(shape, given, 1 if given["no_shard"] else many, device, batch.seq_len),
    }


def _instead(shape: ModelShape, batch: Batch) -> str:
    """What to ask for where the headline's formula does not fit."""
    if needs_target(shape, batch):
        return "; give --convention exact and --target-len"
    return "" if isinstance(training_flops("exact", shape, batch), Absent) else "; give --convention exact"


def _memory(
    shape: ModelShape, given: dict[str, Any], shards: int, device: Device, seq_len: int
) -> dict[str, Any] | None:
    """Bytes on one device; None where the parameters are not known."""
    total, trainable = shape.parameters, shape.trainable_parameters
    if isinstance(total, Absent) or isinstance(trainable, Absent):
        return None
    weights, gradients, optimizer = plan.model_states(total, trainable, shards)
    activations: dict[str, float] = {}
    if shape.cores and not isinstance(shape.width, Absent) and not isinstance(shape.layers, Absent):
        heads = max((core.heads or 0 for core in shape.cores), default=0) or None
        activations = plan.activation_bytes(given["micro_batch"], seq_len, shape.width, heads, shape.layers)
    states = weights + gradients + optimizer
    return {
        "device_bytes": device.memory_bytes,
        "shards": shards,
        "weights_bytes": weights,
        "gradients_bytes": gradients,
        "optimizer_bytes": optimizer,
        "activation_bytes": activations,
        "fits": {name: states + size <= device.memory_bytes for name, size in activations.items()},
    }


_RECOMPUTED = {"none": "nothing", "selective": "the attention cores", "full": "every layer"}


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    mfu = f"{found['mfu_pct']:g} % ({'given' if found['mfu_source'] == 'given' else 'assumed'})"
    rows = [
        ("devices", f"{found['devices']} x {found['device']}"),
        ("peak", f"{found['peak_tflops']:g} TFLOP/s {found['peak_dtype']}, dense ({found['peak_source']})"),
        ("MFU", mfu if "convention" not in found else f"{mfu}, {found['convention']}"),
    ]
    if "optimal_parameters" in found:
        rows.append(("compute-optimal model", f"{found['optimal_parameters']:.4g} parameters"))
    elif found["parameters"] is not None:
        active = found["active_parameters"]
        more = "" if active == found["parameters"] else f", {active:,} active"
        rows.append(("model", f"{found['family']}, {found['parameters']:,} parameters{more}"))
    rows.append(("tokens", f"{found['tokens']:.6g}"))
    if found.get("tokens_per_parameter"):
        rows.append(("tokens per parameter", f"{found['tokens_per_parameter']:.3g} (compute-optimal: about 20)"))
    if "flops_per_token" in found:
        rows.append(("FLOPs per token", f"{found['flops_per_token']:,.0f}"))
    rows += [
        ("FLOPs required", f"{found['flops']:.4e}"),
        ("time", _duration(found["hours"])),
        ("GPU-hours", f"{found['device_hours']:,.4g}"),
        ("tokens/s", f"{found['tokens_per_s']:,.4g}"),
    ]
    return rows + _memory_lines(found.get("memory"))


def _memory_lines(memory: dict[str, Any] | None) -> list[tuple[str, str]]:
    if memory is None:
        return []
    split = "whole on each device" if memory["shards"] == 1 else f"split over {memory['shards']} devices"
    rows = [
        (f"{name} per device", f"{memory[name + '_bytes'] / _GIB:,.2f} GiB, {split}")
        for name in ("weights", "gradients", "optimizer")
    ]
    whole = memory["device_bytes"] / _GIB
    for name, size in memory["activation_bytes"].items():
        fits = "" if memory["fits"][name] else f"; does not fit in {whole:.0f} GiB"
        rows.append((f"activations, {_RECOMPUTED[name]} recomputed", f"{size / _GIB:,.2f} GiB (estimate){fits}"))
    return rows


def _duration(hours: float) -> str:
    return f"{hours:,.2f} hours" if hours < 48 else f"{hours:,.1f} hours ({hours / 24:,.1f} days)"  # noqa: PLR2004


def _draw(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console, drawn = Console(), Table("", "", box=None, show_header=False)
    for name, value in _lines(found):
        drawn.add_row(name, value)
    console.print(drawn)
    if found["mfu_source"] != "given":
        runs = Table("MFU of published runs", "%", "source", box=None)
        for each in found["typical_mfu"]:
            runs.add_row(each["run"], f"{each['percent']:g}", each["source"])
        console.print(runs)
