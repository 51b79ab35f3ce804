"""What changed from one run to another, and what that did to the MFU: by factor, by rung, by share of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from trainmeter_core.readings import Absent
from trainmeter_core.series import LADDER_RUNGS, TIME_KINDS

from .sheet import ratio, reading

if TYPE_CHECKING:
    from .sheet import Json, Value

MOST_CHANGES = 200

_SECTIONS = {
    "config": ("identity.command", "options", "model", "data.batches"),
    "code": ("identity.script", "identity.git_commit", "identity.git_dirty"),
    "environment": ("software",),
    "hardware": ("hardware",),
}
_SAME_POINTS = 0.05
_SAME_RATIO = 0.005


def changes(before: Json, after: Json) -> Json:
    """The comparison as one JSON object: `changed` by section, `mfu` with its factors, `rungs`, `shares`, `step_s`.

    The MFU is that of the first run's convention in both. Where a value is null, `why` tells the reason.
    """
    name = before["options"]["convention"]
    found: Json = {
        "runs": [before["identity"]["run_id"], after["identity"]["run_id"]],
        "convention": name,
        "changed": {
            section: list(_changed(before, after, fields))[:MOST_CHANGES] for section, fields in _SECTIONS.items()
        },
    }
    pairs = {
        "mfu": "efficiency.mfu." + name,
        "tokens_per_s": "efficiency.tokens_per_s",
        "step_time_s": "efficiency.step_time_s",
    }
    for key, field in pairs.items():
        found[key] = _pair(_read(before, field), _read(after, field))
    found["factors"] = {key: _pair(*values) for key, values in _factors(before, after, name).items()}
    ladder, shares = "efficiency.ladder.", "time.shares."
    found["rungs"] = {rung: _pair(_read(before, ladder + rung), _read(after, ladder + rung)) for rung in LADDER_RUNGS}
    found["shares"] = {kind: _pair(_read(before, shares + kind), _read(after, shares + kind)) for kind in TIME_KINDS}
    found["step_s"] = {
        kind: _pair(_per_step(before, kind), _per_step(after, kind)) for kind in TIME_KINDS if kind != "startup"
    }
    return found


def drop_pct(found: Json) -> Value:
    """By how many percent of its first value the MFU fell; negative for a rise."""
    mfu = found["mfu"]
    if mfu["before"] is None or mfu["after"] is None:
        return Absent(mfu["why"])
    return ratio(mfu["before"] - mfu["after"], mfu["before"], 100.0)


def words(found: Json) -> str:
    """The comparison for people, one sentence a line; what did not change is left out."""
    return "\n".join((*_of_mfu(found), *_of_time(found), *_of_ladder(found), *_of_changes(found))) + "\n"


def _of_mfu(found: Json) -> Iterator[str]:
    mfu, name = found["mfu"], found["convention"]
    drop = drop_pct(found)
    if isinstance(drop, Absent):
        yield f"MFU ({name}) cannot be compared: {drop.reason}"
    else:
        points = mfu["after"] - mfu["before"]
        way = "fell" if points < 0 else "rose"
        change = f"{way} from {mfu['before']:.3g} % to {mfu['after']:.3g} % ({points:+.3g} points, {-drop:+.3g} %)"
        same = abs(drop) < 100 * _SAME_RATIO
        yield f"MFU ({name}) " + (f"is the same, {mfu['after']:.3g} %" if same else change)
    labels = {
        "flops_per_token": "FLOPs per token",
        "tokens_per_s_per_device": "tokens/s per device",
        "peak_tflops": "peak per device, TFLOP/s (divides the MFU)",
    }
    for key, label in labels.items():
        pair = found["factors"][key]
        if pair["ratio"] is not None and abs(pair["ratio"] - 1) >= _SAME_RATIO:
            yield f"  {label}: {pair['before']:,.4g} to {pair['after']:,.4g} ({_times(pair['ratio'])})"


def _times(factor: float) -> str:
    return f"x {factor:.3g}"


def _of_time(found: Json) -> Iterator[str]:
    step = found["step_time_s"]
    if step["ratio"] is not None and abs(step["ratio"] - 1) >= _SAME_RATIO:
        yield f"A step took {step['before']:.4g} s, now {step['after']:.4g} s"
        moved = [(kind, pair) for kind, pair in found["step_s"].items() if pair["change"]]
        moved = [(kind, p) for kind, p in moved if abs(p["change"]) >= _SAME_RATIO * step["before"]]
        for kind, pair in sorted(moved, key=lambda each: -abs(each[1]["change"])):
            yield f"  {kind.replace('_', ' ')}: {pair['change']:+.4g} s a step"
    for kind, pair in found["shares"].items():
        if pair["change"] is not None and abs(pair["change"]) >= _SAME_POINTS:
            label = kind.replace("_", " ")
            yield f"Time in {label}: {pair['before']:.3g} % to {pair['after']:.3g} % ({pair['change']:+.3g} points)"


def _of_ladder(found: Json) -> Iterator[str]:
    for rung, pair in found["rungs"].items():
        if rung != LADDER_RUNGS[-1] and pair["change"] is not None and abs(pair["change"]) >= _SAME_POINTS:
            label = rung[2:].replace("_", " ")
            yield f"Rung {label}: {pair['before']:.3g} % to {pair['after']:.3g} % ({pair['change']:+.3g} points)"


def _of_changes(found: Json) -> Iterator[str]:
    for section, listed in found["changed"].items():
        if not listed:
            yield f"Same {section}"
        for change in listed:
            yield f"{section}: {change['field']}: {_shown(change['before'])} to {_shown(change['after'])}"


def _shown(value: Any) -> str:
    text = "n/a" if value is None else str(value)
    return " ".join(text.split())[:120]


def _read(passport: Json, field: str) -> Value:
    try:
        return reading(passport, field)
    except KeyError:  # a convention that the other run has no number for
        return Absent(field + " is not among its numbers")


def _factors(before: Json, after: Json, name: str) -> dict[str, tuple[Value, Value]]:
    """MFU = FLOPs per token x tokens/s per device / peak per device."""
    fields = {
        "flops_per_token": "compute.flops_per_token." + name,
        "tokens_per_s_per_device": "efficiency.tokens_per_s_per_device",
        "peak_tflops": "options.peak_tflops",
    }
    return {key: (_read(before, field), _read(after, field)) for key, field in fields.items()}


def _per_step(passport: Json, kind: str) -> Value:
    """Seconds of one rank and step."""
    spent = ratio(_read(passport, "time.rank_seconds." + kind), _read(passport, "hardware.ranks_seen"))
    return ratio(spent, _read(passport, "data.steps"))


def _pair(before: Value, after: Value) -> Json:
    known = not isinstance(before, Absent) and not isinstance(after, Absent)
    pair: Json = {
        "before": None if isinstance(before, Absent) else before,
        "after": None if isinstance(after, Absent) else after,
        "change": after - before if known else None,  # type: ignore[operator]  # both are numbers here
        "ratio": after / before if known and before else None,  # type: ignore[operator]
    }
    for which, value in (("before", before), ("after", after)):
        if isinstance(value, Absent):
            pair["why"] = f"{'first' if which == 'before' else 'second'} run: {value.reason}"
    return pair


def _changed(before: Json, after: Json, fields: tuple[str, ...]) -> Iterator[Json]:
    for field in fields:
        yield from _different(field, _at(before, field), _at(after, field))


def _at(passport: Json, field: str) -> Any:
    found: Any = passport
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _different(field: str, one: Any, other: Any) -> Iterator[Json]:
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() == other.keys() == {"value", "unit", "source"}:
            one, other = one["value"], other["value"]
        else:
            for name in {**one, **other}:
                yield from _different(f"{field}.{name}", one.get(name), other.get(name))
            return
    elif field == "identity.command" and isinstance(one, list) and isinstance(other, list):
        yield from _different_words(field, one, other)
        return
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (a, b) in enumerate(zip(one, other)):
            yield from _different(f"{field}.{at}", a, b)
        return
    if one != other:
        yield {"field": field, "before": one, "after": other}


def _different_words(field: str, one: list[str], other: list[str]) -> Iterator[Json]:
    """A command's options by name, so that a changed one is one change; other words as a whole."""
    (plain, options), (other_plain, other_options) = _parsed(one), _parsed(other)
    if plain != other_plain:
        yield {"field": field, "before": " ".join(plain), "after": " ".join(other_plain)}
    for name in {**options, **other_options}:
        a, b = options.get(name), other_options.get(name)
        if a != b:
            yield {"field": f"{field} {name}", "before": a, "after": b}


def _parsed(command: list[str]) -> tuple[list[str], dict[str, str]]:
    plain: list[str] = []
    options: dict[str, str] = {}
    name = ""
    for word in command:
        if word.startswith("--") or (word.startswith("-") and word[1:2].isalpha()):
            name, given, value = word.partition("=")
            options[name] = value if given else "given"
            name = "" if given else name
        elif name:
            options[name] = word
            name = ""
        else:
            plain.append(word)
    return plain, options
