"""Two pictures of a passport as SVG files: where the time went, and the utilization ladder; for light and dark pages.

A page that refuses inline SVG, as GitHub and the Hub do, shows them as images; the colours follow the reader's scheme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from trainmeter_core.readings import Absent
from trainmeter_core.series import LADDER_RUNGS, RUNG_NAMES, TIME_KINDS

from .sheet import reading

if TYPE_CHECKING:
    from .sheet import Json

WIDTH = 640
_BAR = 26
_LINE = 22
_LABEL = 150

# Fills that keep 3:1 against both page colours and differ for colour-blind readers (Okabe and Ito's set, adjusted).
_FILLS = {
    "step": "#2a7fbf",
    "data_wait": "#d55e00",
    "checkpoint": "#b8860b",
    "eval": "#158f6b",
    "logging": "#b5528f",
    "startup": "#6d6fc4",
    "other": "#80868b",
}
_INK = {
    "light": "text{fill:#1f2328}.dim{fill:#59636e}.track{fill:#d1d9e0}",
    "dark": "text{fill:#f0f6fc}.dim{fill:#9198a1}.track{fill:#3d444d}",
}
_FONT = "text{font:13px system-ui,sans-serif}"
_STYLES = {scheme: f"<style>{_FONT}{ink}</style>" for scheme, ink in _INK.items()}
_STYLES["reader"] = f"<style>{_FONT}{_INK['light']}@media(prefers-color-scheme:dark){{{_INK['dark']}}}</style>"
"""By colour scheme of the page; "reader" follows the reader's system."""


def time_shares(passport: Json, scheme: str = "reader") -> str:
    """One bar of the time's parts with its legend, for a page of the colour scheme. Returns an SVG document."""
    values = {kind: reading(passport, "time.shares." + kind) for kind in TIME_KINDS}
    parts: list[str] = []
    left = 0.0
    for kind, value in values.items():
        if not isinstance(value, Absent) and value > 0:
            width = WIDTH * value / 100
            parts.append(f'<rect x="{left:.2f}" y="30" width="{width:.2f}" height="{_BAR}" fill="{_FILLS[kind]}"/>')
            left += width
    for at, (kind, value) in enumerate(values.items()):
        x, y = (at % 3) * WIDTH / 3, 30 + _BAR + 24 + (at // 3) * _LINE
        parts.append(f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="11" height="11" rx="2" fill="{_FILLS[kind]}"/>')
        parts.append(_text(x + 17, y, f"{kind.replace('_', ' ')} {_percent(value)}"))
    return _document("Where the time went", 30 + _BAR + 24 + 3 * _LINE, parts, scheme)


def ladder(passport: Json, scheme: str = "reader") -> str:
    """One bar per rung from 0 to 100 percent; one that is not known has no bar. Returns an SVG document."""
    parts: list[str] = []
    for at, rung in enumerate(LADDER_RUNGS):
        value = reading(passport, "efficiency.ladder." + rung)
        y = 30 + at * _LINE
        track = WIDTH - _LABEL - 110
        parts.append(_text(0, y + 12, RUNG_NAMES[rung]))
        if not isinstance(value, Absent):
            shown = min(max(value, 0.0), 100.0)
            parts.append(f'<rect class="track" x="{_LABEL}" y="{y}" width="{track}" height="15" rx="3"/>')
            parts.append(f'<rect x="{_LABEL}" y="{y}" width="{track * shown / 100:.2f}" height="15" fill="#2a7fbf"/>')
        parts.append(_text(WIDTH - 100, y + 12, _percent(value), dim=isinstance(value, Absent)))
    return _document("Utilization ladder", 30 + len(LADDER_RUNGS) * _LINE, parts, scheme)


def _percent(value: float | Absent) -> str:
    return "n/a" if isinstance(value, Absent) else f"{value:.3g} %"


def _text(x: float, y: float, text: str, dim: bool = False) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{" class=" + chr(34) + "dim" + chr(34) if dim else ""}>{escape(text)}</text>'


def _document(title: str, height: int, parts: list[str], scheme: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">{_STYLES[scheme]}{_text(0, 16, title)}{"".join(parts)}</svg>\n'
    )
