"""The passport for a Hugging Face model card: YAML metadata where the standard has fields, and two pictures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainmeter_core.readings import Absent

from . import svg
from .markdown import escape, figure, render
from .overlay import carbon_kg
from .sheet import ratio, reading

if TYPE_CHECKING:
    from .sheet import Json

_PICTURES = {"time": svg.time_shares, "ladder": svg.ladder}
_ALTS = {"time": "Where the time went, in percent", "ladder": "Utilization ladder, in percent"}


def card(passport: Json, kg_per_kwh: float | None = None, pictures: str = "") -> str:
    """A whole card: metadata, the environmental impact in the card template's words, and the passport.

    `pictures` is the prefix of the picture files' names, with `pictures_of`; without one there are none.
    """
    body = render(passport, picture_tags(passport, pictures) if pictures else "")
    return f"{metadata(passport, kg_per_kwh)}\n{body}\n{impact(passport, kg_per_kwh)}"


def metadata(passport: Json, kg_per_kwh: float | None = None) -> str:
    """The YAML block. `co2_eq_emissions` (grams) only with a factor of the user's: it is nothing that was measured."""
    lines = ["---", "tags:", "- trainmeter"]
    emitted = Absent("no factor was given") if kg_per_kwh is None else carbon_kg(passport, kg_per_kwh)
    if not isinstance(emitted, Absent):
        lines += [
            "co2_eq_emissions:",
            f"  emissions: {1000 * emitted:.6g}",
            "  source: "
            + _quoted(f"trainmeter: measured GPU energy x {kg_per_kwh:g} kg CO2 per kWh, given by the user"),
            "  hardware_used: " + _quoted(_hardware(passport)),
        ]
    return "\n".join([*lines, "---", ""])


def impact(passport: Json, kg_per_kwh: float | None = None) -> str:
    """The section of the card template: hardware type, hours used, and what is known of energy and carbon."""
    hours = ratio(reading(passport, "time.wall_s"), 3600)
    devices = reading(passport, "hardware.devices")
    if not isinstance(hours, Absent) and not isinstance(devices, Absent):
        hours = hours * devices
    rows = [
        ("Hardware type", escape(_hardware(passport))),
        ("Hours used (devices x wall hours)", figure(hours, "h")),
        ("GPU energy, measured", figure(reading(passport, "energy.gpu_kwh"), "kWh")),
    ]
    if kg_per_kwh is not None:
        label = f"Carbon emitted, at {kg_per_kwh:g} kg CO2 per kWh given by the user"
        rows.append((label, figure(carbon_kg(passport, kg_per_kwh), "kg CO2")))
    return "## Environmental impact\n\n" + "\n".join(f"- **{label}:** {value}" for label, value in rows) + "\n"


def pictures_of(passport: Json, prefix: str) -> dict[str, str]:
    """The picture files by name: each picture for a light and for a dark page."""
    return {
        f"{prefix}-{name}-{scheme}.svg": draw(passport, scheme)
        for name, draw in _PICTURES.items()
        if _has(passport, name)
        for scheme in ("light", "dark")
    }


def picture_tags(passport: Json, prefix: str) -> str:
    """The Markdown that shows them; GitHub and the Hub take the file that fits the reader's theme."""
    return "\n\n".join(
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{prefix}-{name}-dark.svg">'
        f'<img alt="{_ALTS[name]}" src="{prefix}-{name}-light.svg"></picture>'
        for name in _PICTURES
        if _has(passport, name)
    )


def _has(passport: Json, name: str) -> bool:
    """Whether there is anything to draw."""
    table: dict[str, Any] = passport["time"]["shares"] if name == "time" else passport["efficiency"]["ladder"]
    return any(value is not None for value in table.values())


def _hardware(passport: Json) -> str:
    gpus = passport["hardware"]["gpus"]
    if gpus:
        return ", ".join(f"{gpu['count']['value']} x {gpu['name']}" for gpu in gpus)
    return str(passport["hardware"]["cpu"] or "not known") if gpus == [] else "not known"


def _quoted(text: str) -> str:
    """A YAML string; JSON's are among them."""
    return json.dumps(text, ensure_ascii=False)
