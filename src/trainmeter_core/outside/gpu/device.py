"""One watched GPU: its probes, what it said last, and how it is found again after it was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.outside.gpu import probes
from trainmeter_core.outside.gpu.energy import EnergyMeter
from trainmeter_core.outside.gpu.gpm import Gpm
from trainmeter_core.outside.gpu.nvml import Backoff, Nvml, Probe, Refused, is_lost
from trainmeter_core.outside.gpu.readings import EVENT_BITS, READINGS, GpuDescription, GpuReadings
from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainmeter_core.outside.gpu.inventory import Listed

_UTILIZATION_SAMPLES, _CLOCK_SAMPLES = 1, 5
_SHORTEST_S = 0.1  # just after a GPU came back the counter has moved by a few of its steps only
_WHOLE_GPU_ONLY = Absent("the driver measures it for the whole GPU, which other MIG slices share")


class Gpu:
    """A GPU or MIG slice, known by its UUID. Handles come and go (`attach`, `detach`); the energy total stays."""

    def __init__(self, nvml: Nvml, listed: Listed, clock: Callable[[], float]) -> None:
        self.listed = listed
        self.lost: Absent | None = Absent("not opened yet")  # falsy like every Absent: compare with None
        self.energy = EnergyMeter()
        self.handle: Any = None
        self.whole: Any = None
        self._nvml, self._clock = nvml, clock
        self._retry = Backoff(clock)
        self._gpm: Gpm | None = None
        self._probes: dict[str, Probe[Any]] = {}
        self._newest_us = {_UTILIZATION_SAMPLES: 0, _CLOCK_SAMPLES: 0}
        self._fields: dict[str, Reading] | Absent = Absent("first sample")
        self._fields_before: dict[str, Reading] = {}
        self._fields_at = clock()
        self._read_at = clock()

    def attach(self) -> bool:
        """Finds the GPU by its UUID and takes the first sample of every counter; True if it is there."""
        handle = self._nvml.ask("nvmlDeviceGetHandleByUUID", self.listed.uuid)
        if isinstance(handle, Refused):
            self.lost = handle
            self._retry.failed(handle.code)
            return False
        self.handle, self.whole, mig = handle, handle, None
        if self.listed.parent_uuid is not None:
            self.whole = self._nvml.ask("nvmlDeviceGetHandleByUUID", self.listed.parent_uuid)
            if isinstance(self.whole, Absent):
                self.whole = self._nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            if self.listed.gpu_instance is not None and not isinstance(self.whole, Absent):
                mig = (self.whole, self.listed.gpu_instance)
        self.lost = None
        self._retry.worked()
        self._gpm = Gpm(self._nvml, handle, self._clock, mig)
        self._probes = self._new_probes()
        self._newest_us = dict.fromkeys(self._newest_us, 0)
        self._gpm.prime()
        for kind in self._newest_us:
            self._averaged(kind)
        fields = self._probes["fields"].read()
        self._fields_before = {} if isinstance(fields, Absent) else fields
        now = self._clock()
        if self.listed.parent_uuid is None:
            self.energy.add(self._probes["energy_mj"].read(), Absent("not open"), now - self._read_at)
        self._read_at = self._fields_at = now
        return True

    def detach(self, why: Absent) -> None:
        """Lets go of the handles; every reading is Absent, with `why`, until `attach` works again."""
        if self._gpm is not None:
            self._gpm.close()
        self.lost, self.handle, self.whole, self._gpm = why, None, None, None

    def read(self) -> GpuReadings:
        """Every reading over the time since the last `read`; never raises for what a driver does."""
        if self.lost is not None and self._retry.ready():
            self.attach()
        now = self._clock()
        seconds, self._read_at = now - self._read_at, now
        if self.lost is not None or self._gpm is None:
            return self._nothing(Absent("not open") if self.lost is None else self.lost, seconds)
        values = self._plain()
        values.update(self._gpm.read())
        gone = next((value for value in values.values() if is_lost(value)), None)
        if gone is not None and all(isinstance(value, Absent) for value in values.values()):
            self.detach(gone)
            self._retry.failed(gone.code)
            return self._nothing(gone, seconds)
        throttle = self._throttle(now)
        self._add_energy(values, seconds)
        values.pop("energy_mj", None)
        return GpuReadings(self.listed.uuid, self.listed.index, seconds, values, throttle)

    def describe(self, driver_version: str | Absent, cuda_version: str | Absent) -> GpuDescription:
        capability = self._nvml.ask("nvmlDeviceGetCudaComputeCapability", self.whole)
        attributes = self._nvml.ask("nvmlDeviceGetAttributes_v2", self.handle) if self.listed.parent_uuid else None
        max_clock = self._nvml.ask("nvmlDeviceGetMaxClockInfo", self.whole, 1)
        memory = probes.memory(self._nvml, self.handle)
        unknown = Absent("the driver gives it only for MIG slices")
        return GpuDescription(
            uuid=self.listed.uuid,
            name=self.listed.name,
            index=self.listed.index,
            profile=self.listed.profile,
            parent_uuid=self.listed.parent_uuid,
            pci_bus_id=self.listed.pci_bus_id,
            driver_version=driver_version,
            cuda_version=cuda_version,
            compute_capability=capability if isinstance(capability, Absent) else f"{capability[0]}.{capability[1]}",
            mem_total_bytes=memory if isinstance(memory, Absent) else memory.total_bytes,
            multiprocessors=getattr(attributes, "multiprocessorCount", None) or unknown,
            max_sm_clock_mhz=max_clock if isinstance(max_clock, Absent) else int(max_clock),
            power_limit_w=probes.power_limit(self._nvml, self.whole),
        )

    def _new_probes(self) -> dict[str, Probe[Any]]:
        nvml, own, whole = self._nvml, self.handle, self.whole
        asked: dict[str, tuple[Callable[[Nvml, Any], Any], Any]] = {
            "utilization": (probes.utilization, own),
            "sm_clock_mhz": (probes.sm_clock, whole),
            "mem_clock_mhz": (probes.mem_clock, whole),
            "power_w": (probes.power, own),
            "power_limit_w": (probes.power_limit, whole),
            "energy_mj": (probes.energy_mj, own),
            "temp_c": (probes.temperature, whole),
            "memory": (probes.memory, own),
            "events": (probes.event_bits, whole),
            "fields": (probes.fields, whole),
        }
        made: dict[str, Probe[Any]] = {
            name: Probe(lambda call=call, handle=handle: call(nvml, handle), self._clock)  # type: ignore[misc]
            for name, (call, handle) in asked.items()
        }
        for kind in self._newest_us:
            made[f"samples_{kind}"] = Probe(
                lambda kind=kind: probes.buffered_mean(nvml, whole, kind, self._newest_us[kind]),  # type: ignore[misc]
                self._clock,
            )
        return made

    def _averaged(self, kind: int) -> Reading:
        """The mean of the driver's own buffer over this interval, if it keeps one."""
        answer = self._probes[f"samples_{kind}"].read()
        if isinstance(answer, Absent):
            return answer
        mean, self._newest_us[kind] = answer
        return float(mean)

    def _plain(self) -> dict[str, Reading]:
        ask = self._probes
        values: dict[str, Reading] = {
            name: ask[name].read() for name in ("mem_clock_mhz", "power_limit_w", "temp_c", "power_w", "energy_mj")
        }
        util = _percent(self._averaged(_UTILIZATION_SAMPLES))
        values["gpu_util_pct"] = _percent(ask["utilization"].read()) if isinstance(util, Absent) else util
        clock = self._averaged(_CLOCK_SAMPLES)
        instant = ask["sm_clock_mhz"].read()
        values["sm_clock_mhz"] = clock if not isinstance(clock, Absent) and clock > 0 else instant
        memory = ask["memory"].read()
        values["mem_used_bytes"] = memory if isinstance(memory, Absent) else memory.used_bytes
        values["mem_total_bytes"] = memory if isinstance(memory, Absent) else memory.total_bytes
        self._fields = ask["fields"].read()
        for name in probes.PLAIN_FIELDS:
            values[name] = self._fields if isinstance(self._fields, Absent) else self._fields[name]
        if self.listed.parent_uuid is not None:
            values.update(dict.fromkeys(("gpu_util_pct", "power_w", "energy_mj"), _WHOLE_GPU_ONLY))
        return values

    def _throttle(self, now: float) -> dict[str, Reading]:
        """Share of the interval per cause: by the driver's cumulative times where it has them, else by the bit now."""
        bits = self._probes["events"].read()
        shares: dict[str, Reading] = {}
        for cause, bit in EVENT_BITS.items():
            shares[cause] = bits if isinstance(bits, Absent) else 100.0 * bool(bits & bit)
        if isinstance(self._fields, Absent):
            return shares
        for cause in probes.TIME_FIELDS:
            before = self._fields_before.get(cause, Absent("first sample"))
            share = probes.share_pct(before, self._fields[cause], now - self._fields_at)
            if not isinstance(share, Absent):
                shares[cause] = share
        self._fields_before, self._fields_at = self._fields, now
        return shares

    def _add_energy(self, values: dict[str, Reading], seconds: float) -> None:
        if self.listed.parent_uuid is not None:
            values["energy_j"] = _WHOLE_GPU_ONLY
            return
        joules = self.energy.add(values["energy_mj"], values["power_w"], seconds)
        values["energy_j"] = self.energy.total_j()
        if (
            not isinstance(joules, Absent)
            and not isinstance(values["energy_mj"], Absent)
            and seconds >= _SHORTEST_S
            and joules > 0
        ):
            values["power_w"] = joules / seconds

    def _nothing(self, why: Absent, seconds: float) -> GpuReadings:
        if self.listed.parent_uuid is None:
            self.energy.add(why, why, seconds)
        values: dict[str, Reading] = dict.fromkeys(READINGS, why)
        return GpuReadings(self.listed.uuid, self.listed.index, seconds, values, dict.fromkeys(EVENT_BITS, why))


def _percent(value: Reading) -> Reading:
    """Drivers have returned absurd percentages; those are dropped, not clamped."""
    if isinstance(value, Absent) or 0 <= value <= 100:  # noqa: PLR2004
        return value
    return Absent(f"the driver gave {value:g} %, which is not possible")
