"""Validates a passport against schema.json; called outside only, because it needs jsonschema."""

from __future__ import annotations

import json
import os
from typing import Any

SCHEMA_FILE = os.path.join(os.path.dirname(__file__), "schema.json")


def load() -> Any:
    """The JSON schema (draft 2020-12)."""
    with open(SCHEMA_FILE, encoding="utf-8") as file:
        return json.load(file)


def problems(passport: Any) -> list[str]:
    """What is wrong with a passport, one line per place, at most ten; an empty list when it is valid."""
    import jsonschema

    found = jsonschema.Draft202012Validator(load()).iter_errors(passport)
    lines = sorted(f"{error.json_path}: {error.message[:200]}" for error in found)
    return lines[:10] or _without_headline(passport)


def _without_headline(passport: Any) -> list[str]:
    """What a schema cannot say: the tables by convention hold the passport's own."""
    compute, own = passport["compute"], {passport["options"]["convention"], passport["compute"]["convention"]}
    tables = ("flops", "steady_flops", "flops_per_token")
    return [f"$.compute.{name}: has no count of the headline" for name in tables if not own <= compute[name].keys()]
