"""Recomputes every derived number of a passport from the inputs in the passport, and tells which do not hold."""

from __future__ import annotations

import json
import math
from typing import Any, Iterator, NamedTuple

from trainmeter_core.readings import Absent

from . import about, derive, utilization
from .build import FormulasFor, build, digest
from .formulas import formulas_for
from .restore import restore
from .sheet import FORMULA, Json, Sheet

RELATIVE = 1e-9


class Finding(NamedTuple):
    """One field that does not hold: what the passport says, and what follows from its inputs."""

    field: str
    said: str
    follows: str


def check(passport: Json, formulas: FormulasFor = formulas_for) -> list[Finding]:
    """What does not hold in a valid passport; an empty list when everything does.

    FLOPs follow from the model's description and the batches, rates and utilizations from these and the steady part,
    shares from the seconds, and what else a passport states of its own inputs (devices, energy, units, sources) from
    building it again. What was measured follows from nothing: there, only the digest tells that it was edited
    (`leaves.FIELDS` says which field is which).
    """
    description = passport["model"]["description"]
    found = formulas(
        Absent("the passport does not hold the model's description") if description is None else description
    )
    sheet = Sheet()
    again: Json = {**passport, "model": about.model(_described(description), found, sheet)}
    try:
        again["compute"] = derive.compute(again, found, sheet)
        again["efficiency"] = derive.efficiency(again, sheet)
        again["verdicts"] = _verdicts(passport, utilization.found(again))
    except (ArithmeticError, ValueError) as error:  # inputs that no run can have: 1e154 tokens in a sequence
        out_of_range = Finding("compute", "inputs out of any range", f"{type(error).__name__}: {error}")
        return [out_of_range, *_rest(passport, formulas, set()), *_digest(passport)]
    again["time"] = {**passport["time"], "shares": derive.shares(passport, sheet)}
    reasons = {gap["field"]: gap["reason"] for gap in sheet.gaps}
    findings = [
        Finding(
            field, _shown(said), _shown(follows) if follows is not None else "n/a: " + reasons.get(field, "not there")
        )
        for part in ("model", "compute", "efficiency", "time")
        for field, said, follows in _differences(part, passport[part], again[part])
    ]
    if passport["verdicts"] != again["verdicts"]:
        findings.append(Finding("verdicts", _codes(passport["verdicts"]), _codes(again["verdicts"])))
    findings += _rest(passport, formulas, {finding.field for finding in findings})
    return findings + _digest(passport)


def _digest(passport: Json) -> list[Finding]:
    follows = digest(passport)
    return [] if passport["digest"] == follows else [Finding("digest", passport["digest"], follows)]


_CHECKED = ("model", "compute", "efficiency", "verdicts", "gaps", "digest")


def _rest(passport: Json, formulas: FormulasFor, known: set[str]) -> list[Finding]:
    """What does not come out as it stands when the passport is built again from what it tells."""
    try:
        again = build(restore(passport), formulas)
    except (ArithmeticError, ValueError, TypeError) as error:
        return [Finding("passport", "numbers that no run can have", f"{type(error).__name__}: {error}")]
    findings = [
        Finding(field, _shown(said), _shown(follows))
        for part in again
        if part not in _CHECKED
        for field, said, follows in _differences(part, passport[part], again[part])
        if field not in known and not field.startswith("time.shares.")
    ]
    said, follow = ({gap["field"] for gap in each["gaps"]} for each in (passport, again))
    findings += [Finding("gaps", "nothing of " + field, "a reason") for field in sorted(follow - said)]
    return findings + [Finding("gaps", "a reason for " + field, "nothing") for field in sorted(said - follow)]


def _verdicts(passport: Json, derived: list[Json]) -> list[Json]:
    """What was seen while the run went on follows from nothing; the rest follows from the means."""
    seen = [verdict for verdict in passport["verdicts"] if verdict["source"] != FORMULA]
    return utilization.worst_first(seen + derived)


def _codes(each: list[Json]) -> str:
    return json.dumps([verdict["code"] for verdict in each])


def _described(description: Json | None) -> Json | Absent:
    return Absent("not in the passport") if description is None else description


def _differences(field: str, said: Any, follows: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(said, dict) and isinstance(follows, dict):
        for name in {**said, **follows}:
            yield from _differences(f"{field}.{name}", said.get(name), follows.get(name))
    elif isinstance(said, list) and isinstance(follows, list) and len(said) == len(follows):
        for at, (ours, theirs) in enumerate(zip(said, follows)):
            yield from _differences(f"{field}.{at}", ours, theirs)
    elif not _equal(said, follows):
        yield (field[: -len(".value")] if field.endswith(".value") else field), said, follows


def _equal(said: Any, follows: Any) -> bool:
    """Exact, but for the last digits of a float, which another machine's arithmetic may round differently."""
    if isinstance(follows, float) and isinstance(said, (int, float)) and not isinstance(said, bool):
        return math.isclose(said, follows, rel_tol=RELATIVE)
    return bool(said == follows) and type(said) is type(follows)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    return "n/a" if value is None else json.dumps(value)
