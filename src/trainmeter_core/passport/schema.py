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
    return lines[:10]
