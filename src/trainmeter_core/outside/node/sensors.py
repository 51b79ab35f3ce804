"""Temperatures and fans; /sys/class/hwmon, and /sys/class/thermal where that has none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .tree import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .tree import Tree

_HWMON, _THERMAL = "sys/class/hwmon", "sys/class/thermal"
_EVERY_S = 10.0
_TOO_SLOW_S = 0.2  # some chips take seconds, on a bus that others wait for
_PLAUSIBLE_C = (0.0, 200.0)  # both ends excluded: what broken sensors say


class Sensors:
    """°C and rpm, every 10 seconds: reading a core's own sensor interrupts that core."""

    series = ("node/temp_c", "node/fan_rpm")

    def __init__(self, tree: Tree, clock: Callable[[], float] = time.monotonic) -> None:
        self._tree = tree
        self._clock = clock
        self._files: dict[str, tuple[str, str]] | None = None
        self._read_at = float("-inf")
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        if now - self._read_at < _EVERY_S:
            return {}
        self._read_at = now
        if self._files is None:
            self._files = dict(self._temperatures()) | dict(self._fans())
            for series in self.series:
                if not any(name.startswith(series) for name in self._files):
                    self.missing[series] = "no such sensor is shown by this machine"
        values: dict[str, float] = {}
        for name, (file, device) in list(self._files.items()):
            if self._tree.maybe(device, "power/runtime_status") == "suspended":  # reading would wake it up
                continue
            started = self._clock()
            raw = self._tree.number(file)
            if self._clock() - started > _TOO_SLOW_S:
                del self._files[name]
                self.missing[name] = "the sensor takes too long to answer"
            if raw is None:
                continue
            if name.startswith("node/fan_rpm"):
                values[name] = float(raw)
            elif _PLAUSIBLE_C[0] < raw / 1000 < _PLAUSIBLE_C[1]:
                values[name] = raw / 1000
        return values

    def _temperatures(self) -> Iterator[tuple[str, tuple[str, str]]]:
        chips = list(self._chip_files("temp"))
        # A chip that shows its package needs no hundred cores beside it.
        whole = {chip for chip, label, _ in chips if label.startswith("Package")}
        chips = [row for row in chips if not (row[0] in whole and row[1].startswith("Core"))]
        if not chips:
            for zone in self._tree.names(_THERMAL):
                if zone.startswith("thermal_zone"):
                    chips.append((zone, self._tree.maybe(_THERMAL, zone, "type") or "", "temp"))
            return self._named("node/temp_c", _THERMAL, chips)
        return self._named("node/temp_c", _HWMON, chips)

    def _fans(self) -> Iterator[tuple[str, tuple[str, str]]]:
        return self._named("node/fan_rpm", _HWMON, list(self._chip_files("fan")))

    def _chip_files(self, kind: str) -> Iterator[tuple[str, str, str]]:
        """Chip folder, label and file name of each input."""
        for chip in self._tree.names(_HWMON):
            for file in self._tree.names(_HWMON, chip):
                if file.startswith(kind) and file.endswith("_input"):
                    label = self._tree.maybe(_HWMON, chip, file.replace("_input", "_label"))
                    yield chip, label or file.removesuffix("_input"), file

    def _named(self, series: str, room: str, rows: list[tuple[str, str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
        taken: dict[str, int] = {}
        for folder, label, file in rows:
            chip = self._tree.maybe(room, folder, "name") or ""
            key = key_of(f"{chip} {label}".lower()) or folder
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > 1:  # the second of two equal disks or sockets
                key = f"{key}_{taken[key]}"
            yield f"{series}/{key}", (f"{room}/{folder}/{file}", f"{room}/{folder}/device")
