"""The one line that tm leaves at the end of a run, and what else must be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A user who loses less than this to their tracker has nothing to gain from hearing of it.
_BLOCKING_PCT = 5.0

_PREFIXES = ("", "K", "M", "G", "T", "P", "E", "Z", "Y")
_TIME_WORDS = {
    "step": "training steps",
    "data_wait": "waiting for data",
    "checkpoint": "checkpoints",
    "eval": "evaluation",
    "logging": "tracker calls",
    "startup": "start-up",
    "other": "other",
}


def summary_line(passport: Mapping[str, Any], place: str, blocking: Sequence[str] = ()) -> str:
    """Say what a run came to: steps, tokens, FLOPs, MFU with convention and peak, the largest time share, the passport.

    A number that is not known is left out, MFU is named with its reason. `blocking` are sentences of `blocking_calls`.
    """
    said = [counted(_value(passport["data"]["steps"]), "step")]
    tokens = _value(passport["data"]["tokens"])
    samples = _value(passport["data"]["samples"])
    if tokens:
        said.append(f"{scaled(tokens).rstrip()} tokens")
    elif samples:
        said.append(counted(samples, "sample"))
    convention = passport["compute"]["convention"]
    flops = _value(passport["compute"]["flops"].get(convention))
    if flops:
        said.append(f"{scaled(flops)}FLOPs")
    said.append(_mfu(passport, convention))
    share = _largest_share(passport["time"]["shares"])
    if share:
        said.append(share)
    said.extend(blocking)
    said.append(f"passport {place}")
    return " · ".join(said)


def _mfu(passport: Mapping[str, Any], convention: str) -> str:
    mfu = _value(passport["efficiency"]["mfu_pct"])
    if mfu is None:
        reason = reason_of(passport, "efficiency.mfu_pct") or reason_of(passport, "options.peak_tflops")
        flops = passport["compute"]["flops"]
        fits = _value(flops.get(convention)) is None and _value(flops.get("exact"))
        return f"MFU n/a: {reason}" + (
            f"; --convention exact{_peak_option(passport)} counts this model" if fits else ""
        )
    peak = _value(passport["options"]["peak_tflops"])
    source = passport["options"]["peak_source"]
    by = "given by you" if source == "user" else source
    return f"MFU {mfu:.3g} % ({convention}; peak {peak:g} TFLOP/s, {by})"


def _peak_option(passport: Mapping[str, Any]) -> str:
    """What an MFU needs besides a convention, where the peak is not known."""
    return "" if _value(passport["options"]["peak_tflops"]) else " --peak-tflops X"


def _largest_share(shares: Mapping[str, Any]) -> str:
    known = {kind: share["value"] for kind, share in shares.items() if share}
    if not known:
        return ""
    kind = max(known, key=lambda name: known[name])
    return f"{known[kind]:.0f} % of the time in {_TIME_WORDS[kind]}"


def blocking_calls(
    calls: Mapping[tuple[str, int], tuple[float, str]], passport: Mapping[str, Any], seconds: float
) -> list[str]:
    """Say which calls of the user's held their training up for more than 5 % of the run, the worst first.

    `calls` holds (call, process) to (seconds, advice); of several processes the one that waited longest counts, and
    no more than the training thread itself spent in tracker calls: what runs on another thread holds nothing up.
    """
    most = _value(passport["time"]["rank_seconds"]["logging"]) or 0.0
    worst: dict[str, tuple[float, str]] = {}
    for (call, _pid), told in calls.items():
        worst[call] = max(worst.get(call, (0.0, "")), told)
    said = []
    for call, (held, advice) in sorted(worst.items(), key=lambda item: -item[1][0]):
        share = 100 * min(held, most) / seconds if seconds > 0 else 0.0
        if share > _BLOCKING_PCT:
            said.append(f"{call} took {share:.0f} % of the run: {advice}")
    return said


# How Python words an error of the operating system.
_REFUSED = "[Errno "


def nothing_seen(agents: int, command: Sequence[str]) -> str:
    """Say why a run has no steps, as far as it can be told."""
    if agents:
        return "no optimizer step of torch was seen, so there is nothing to count"
    blind = next((word for word in command[1:4] if word in ("-I", "-E", "-S", "-IS", "-ES")), None)
    if blind:
        return f"Python's {blind} keeps the agent out: nothing inside the program was seen (tm enable lets it in)"
    if any(word.startswith("PYTHONPATH=") for word in command):
        return (
            "the command sets PYTHONPATH and so keeps the agent out: nothing inside the program was seen "
            "(set it before tm: PYTHONPATH=… tm …, or tm enable)"
        )
    return "no Python with torch was seen in this command, so there is nothing to count"


def failure_line(failures: Sequence[tuple[str, int, str]]) -> str:
    """Say once that something of ours failed, and how to report it; the user's program felt nothing.

    What the system refused (a full disk, a directory that cannot be written) is nothing to report.
    """
    refused = [first for _, _, first in failures if _REFUSED in first or first.startswith("FileNotFoundError")]
    if len(refused) == len(failures):
        return f"the system refused trainmeter a file ({refused[0]}); your program was not affected"
    total = sum(count for _, count, _ in failures)
    site, _, first = failures[0]
    rest = f", and at {len(failures) - 1} more places" if len(failures) > 1 else ""
    return (
        f"trainmeter itself failed {counted(total, 'time')} ({site}: {first}{rest}); "
        "your program was not affected. Please report it with this line"
    )


def reason_of(passport: Mapping[str, Any], field: str) -> str | None:
    """The reason that the passport's gaps give for a field."""
    return next((gap["reason"] for gap in passport["gaps"] if gap["field"] == field), None)


def scaled(number: float) -> str:
    """Write a count with three digits and its SI prefix: 1.23 T."""
    power = 0
    while abs(number) >= 999.5 and power < len(_PREFIXES) - 1:  # noqa: PLR2004 - 1000 after rounding to three digits
        number /= 1000
        power += 1
    return f"{number:.3g} {_PREFIXES[power]}" if power else f"{number:.3g} "


def counted(number: float | None, noun: str) -> str:
    """Write a small count with its noun: 1 step, 1,000 steps."""
    if number is None:
        return f"? {noun}s"
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _value(entry: Any) -> Any:
    return entry["value"] if entry else None
