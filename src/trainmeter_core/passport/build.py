"""Builds the passport of a run from its record; pure, and the same inside the trainer and outside."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Callable, Mapping, Union

from trainmeter_core.readings import Absent

from . import about, derive, spent, utilization
from .formulas import Formulas, formulas_for
from .sheet import ASSUMED, USER, Json, Sheet

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord

VERSION = "trainmeter-passport/1"

FormulasFor = Callable[[Union[Mapping[str, Any], Absent]], Union[Formulas, Absent]]


def build(record: RunRecord, formulas: FormulasFor = formulas_for) -> Json:
    """The passport as the JSON object that schema.json describes: finite numbers only, a gap for every null.

    `formulas` gives the FLOPs conventions for a model's description; tests and `--check` may give their own.
    """
    sheet = Sheet()
    found = formulas(record.model)
    passport: Json = {"version": VERSION, "gaps": sheet.gaps}
    passport["identity"] = about.identity(record, sheet)
    passport["software"] = about.software(record, sheet)
    passport["hardware"] = about.hardware(record, sheet)
    passport["options"] = _options(record, found, sheet)
    passport["model"] = about.model(record.model, found, sheet)
    passport["data"] = spent.data(record, sheet)
    passport["steady"] = spent.steady(record, sheet)
    passport["readings"] = about.readings(record, sheet)
    passport["compute"] = derive.compute(passport, found, sheet)
    passport["efficiency"] = derive.efficiency(passport, sheet)
    passport["verdicts"] = utilization.worst_first(utilization.noted(record) + utilization.found(passport))
    passport["time"] = spent.seconds(record, sheet)
    passport["time"]["shares"] = derive.shares(passport, sheet)
    passport["energy"] = spent.energy(record, sheet)
    passport["losses"] = about.losses(record, sheet)
    passport["ends"] = about.ends(record, sheet)
    passport["readings"] = passport.pop("readings")
    passport["observation"] = about.observation(record, sheet)
    passport["gaps"] = passport.pop("gaps")  # last but one, where a reader looks for them
    passport["digest"] = digest(passport)
    return passport


def digest(passport: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but the digest: tells an edit, does not prove an author."""
    rest = {name: value for name, value in passport.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _options(record: RunRecord, formulas: Formulas | Absent, sheet: Sheet) -> Json:
    """What the formulas were given: convention, peak and budget, each with who said so."""
    known = record.options
    default = derive.HEADLINE if isinstance(formulas, Absent) else formulas.headline
    by_user = known.peak_source == "user"
    none = Absent("no budget was given")
    budgets = {
        "budget_tokens": (known.budget_tokens, "tokens"),
        "budget_steps": (known.budget_steps, "steps"),
        "budget_flops": (known.budget_flops, "FLOPs"),
        "budget_hours": (known.budget_hours, "hours"),
    }
    section: Json = {
        "convention": default if isinstance(known.convention, Absent) else known.convention,
        "peak_tflops": sheet.number(
            "options.peak_tflops", known.peak_tflops, "TFLOP/s per device", USER if by_user else ASSUMED
        ),
        "peak_source": sheet.text("options.peak_source", known.peak_source),
        "peak_dtype": sheet.text("options.peak_dtype", known.peak_dtype),
    }
    for name, (value, unit) in budgets.items():
        # A framework's setting is taken for the goal unless the user gives one to tm.
        told = USER if isinstance(known.budget_source, Absent) or known.budget_source == "user" else ASSUMED
        section[name] = sheet.number("options." + name, none if isinstance(value, Absent) else value, unit, told)
    source: Any = known.budget_source
    given = any(not isinstance(value, Absent) for value, _ in budgets.values())
    section["budget_source"] = sheet.text("options.budget_source", source if given else none)
    return section
