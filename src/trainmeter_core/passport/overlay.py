"""Prices and carbon at view time: computed from a passport and a factor that the viewer gives, and never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sheet import Value, ratio, reading

if TYPE_CHECKING:
    from .sheet import Json


def cost_usd(passport: Json, usd_per_gpu_hour: float) -> Value:
    """Devices x wall hours x the price of one device's hour, US dollars."""
    hours = ratio(reading(passport, "time.wall_s"), 3600)
    devices = reading(passport, "hardware.devices")
    for value in (hours, devices):
        if not isinstance(value, (int, float)):
            return value
    return hours * devices * usd_per_gpu_hour  # type: ignore[operator]  # both are numbers here


def carbon_kg(passport: Json, kg_per_kwh: float) -> Value:
    """Measured GPU energy x the carbon factor, kg of CO2; Absent where no energy was measured."""
    energy = reading(passport, "energy.gpu_kwh")
    return energy * kg_per_kwh if isinstance(energy, (int, float)) else energy


def section(passport: Json, usd_per_gpu_hour: float | None, kg_per_kwh: float | None) -> str:
    """A Markdown section with what was asked for; empty when nothing was."""
    rows = []
    if usd_per_gpu_hour is not None:
        cost = _shown(cost_usd(passport, usd_per_gpu_hour), "USD")
        rows.append(f"| cost at {usd_per_gpu_hour:g} USD per device hour | {cost} |")
    if kg_per_kwh is not None:
        carbon = _shown(carbon_kg(passport, kg_per_kwh), "kg CO2")
        rows.append(f"| GPU emissions at {kg_per_kwh:g} kg CO2 per kWh | {carbon} |")
    if not rows:
        return ""
    title = "## With factors given by the viewer\n\nNot part of the passport.\n\n|  |  |\n| --- | --- |\n"
    return title + "\n".join(rows) + "\n"


def _shown(value: Value, unit: str) -> str:
    return f"{value:,.4g} {unit}" if isinstance(value, (int, float)) else str(value)
