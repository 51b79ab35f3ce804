"""The job's GPUs while it runs: sampled once a second on a thread of tm's own, brought to the run log and the board.

A driver that hangs holds up that thread and nothing else. Without a driver library the thread ends at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from trainmeter_core.gpu_totals import SteadyGpus
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import flat
from trainmeter_core.verdicts import MIN_STUCK_SAMPLES, stuck_counters, without_stuck_counters

from .gpu import GpuSampler, window
from .gpu_series import averaged, known, logged, series_of
from .job_gpus import USER, gpus_named, peak_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainmeter_core.devices import Device, Peak
    from trainmeter_core.ladder import Counters

    from .gpu import GpuDescription, GpuReadings, GpuSample

Record = dict[str, Any]

EVERY_S = 1.0
_SHORTEST_S = 0.15  # the profiling counters are refreshed every 0.1 s
_CLOSING_S = 2.0


class GpuWatch:
    """Samples from the moment it is made; `poll` gives the records that are new and brings the series up to date.

    `series` are means over the job's GPUs, `by_gpu` the same by UUID. Until a model is seen, the job's GPUs are all
    that its environment lets it use. `notices` are lines for the user.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        peak_tflops: float | None = None,
        every_s: float = EVERY_S,
        make: Callable[..., GpuSampler] = GpuSampler,
    ) -> None:
        self.series: dict[str, float] = {}
        self.by_gpu: dict[str, dict[str, float]] = {}
        self.notices: list[str] = []
        self.peak: Peak | Absent = Absent("no model was seen yet")
        self.hardware: Record = {}
        self.devices_per_rank = 1.0
        self.absent: Absent | None = None
        self._recent: dict[str, deque[tuple[float, GpuReadings]]] = {}
        self._energy: dict[str, float] = {}
        self._driver: Record = {}
        self.steady = SteadyGpus()
        self._environ, self._given, self._every_s, self._make = environ, peak_tflops, every_s, make
        self._models: dict[int, tuple[Mapping[str, Any], list[str]]] = {}
        self._unsettled = False
        self._visible: tuple[GpuDescription, ...] | None = None
        self._used: set[str] | None = None
        self._device: dict[str, Device | Absent] = {}
        self._arrived: deque[GpuSample] = deque()
        self._sampler: GpuSampler | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trainmeter gpu", daemon=True)
        self._thread.start()

    # --- the sampling thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        sampler = self._make(environ=self._environ)
        self._sampler = sampler
        if self._final(sampler):
            return
        last = start = time.monotonic()
        while not self._stop.wait(max(0.0, start + self._every_s - time.monotonic())):
            start = max(start + self._every_s, time.monotonic() - self._every_s)
            last = time.monotonic()
            self._arrived.append(sampler.sample())
        if time.monotonic() - last >= _SHORTEST_S:
            self._arrived.append(sampler.sample())
        sampler.close()

    @staticmethod
    def _final(sampler: GpuSampler) -> bool:
        """No library, or an environment that hides every GPU: neither changes while the job runs."""
        why = sampler.absent
        return why is not None and getattr(why, "code", None) in (None, *_NO_LIBRARY)

    # --- tm's own thread ----------------------------------------------------------------------------------------

    def model(self, rank: int, description: Mapping[str, Any], gpus: list[str]) -> None:
        """A rank told of its model and of the GPUs that it lies on."""
        self._models[rank] = (description, gpus)
        self._unsettled = True

    def stepped(self, fields: Mapping[str, Any], end: float) -> None:
        """A window of a rank's steps was read, the last of which ended at `end`, seconds since the epoch."""
        if fields["startup"]:
            self.steady.started(end)
        elif fields["n"] or fields["skipped"]:
            self.steady.stepped()

    def poll(self) -> list[Record]:
        """The log records that are new."""
        records: list[Record] = []
        sampler = self._sampler
        if self._visible is None and sampler is not None and (sampler.devices or sampler.absent is not None):
            if sampler.devices:
                self._visible = sampler.devices
                self._device = {gpu.uuid: gpu.device() for gpu in sampler.devices}
                self._driver = _about_driver(sampler)
                records.append(self._driver)
                self.absent = None
            elif self.absent is None:
                self.absent = sampler.absent
                records.append({"type": "hardware", "gpus_absent": str(getattr(self.absent, "reason", ""))})
        if self._unsettled and (self._visible is not None or self.absent is not None or not self._on_gpus()):
            self._unsettled = False
            records += self._settle()
        while self._arrived:
            records += self._take(self._arrived.popleft())
        return records

    def all_visible(self) -> list[Record]:
        """Take every GPU that the environment shows for the job's own, as when nobody inside can tell."""
        if not self._visible:
            return []
        self.hardware = {"type": "hardware", "gpus": [_listed(gpu) for gpu in self._visible]}
        return [self.hardware]

    def close(self) -> list[Record]:
        """Stop sampling; the last records. A driver that does not answer is waited for no longer than two seconds."""
        self._stop.set()
        self._thread.join(_CLOSING_S)
        if self._thread.is_alive():
            self.notices.append("the GPU driver does not answer any more")
        return self.poll()

    def _settle(self) -> list[Record]:
        """Decide which GPUs are the job's, and their peak."""
        first = self._models[min(self._models)][0]
        if not self._on_gpus():
            return self._without(str(first.get("device", "")))
        mine = [gpu for _, names in self._models.values() for gpu in gpus_named(self._visible or (), names)]
        used = {gpu.uuid: gpu for gpu in mine}
        self._used = set(used)
        self.devices_per_rank = len(used) / len(self._models) if used else 1.0
        devices = [self._device[uuid] for uuid in used]
        if self.absent is not None and not self._given:
            self.peak = Absent(f"{self.absent.reason}; give --peak-tflops")
        else:
            self.peak = peak_of(devices, first, self._given)
        before, self.hardware = self.hardware, self._about_gpus(list(used.values()), devices)
        if isinstance(self.peak, Absent) and "peak_absent" not in before:
            self.notices.append(f"no MFU: {_with_remedy(self.peak.reason)} X (dense TFLOP/s of one GPU)")
        return [self.hardware] if self.hardware != before else []

    def _on_gpus(self) -> bool:
        return any(description.get("device") == "cuda" for description, _ in self._models.values())

    def _without(self, kind: str) -> list[Record]:
        """The model does not run on NVIDIA's GPUs: what was read of them says nothing about it."""
        self._stop.set()
        self._used = set()
        self.series, self.by_gpu, self._recent = {}, {}, {}
        if kind == "cpu":
            self.hardware = {"type": "hardware", "gpus": []}
        else:
            why = f"counters of {kind} devices are not read"
            self.peak = Absent(f"no peak is known for {kind} devices; give --peak-tflops")
            self.hardware = {"type": "hardware", "gpus_absent": why, "peak_absent": self.peak.reason}
        return [self.hardware]

    def _about_gpus(self, used: list[GpuDescription], devices: list[Device | Absent]) -> Record:
        record: Record = {"type": "hardware"}
        if used:
            record["gpus"] = [_listed(gpu) for gpu in used]
        first = devices[0] if devices else Absent("no GPU")
        if not isinstance(first, Absent):
            if not isinstance(first.reference_mhz, Absent):
                record["reference_mhz"] = first.reference_mhz
            record["bandwidth_bytes_per_s"] = first.bandwidth_bytes_per_s
        if isinstance(self.peak, Absent):
            record["peak_absent"] = self.peak.reason
        else:
            if self.peak.source != USER:
                record["peak_tflops"], record["peak_source"] = self.peak.tflops, self.peak.source
            record["peak_dtype"] = self.peak.dtype
        return record

    def _take(self, sample: GpuSample) -> list[Record]:
        own = [gpu for gpu in sample.gpus if self._used is None or gpu.uuid in self._used]
        records: list[Record] = [
            {
                "type": "verdict",
                "t": xid.time_s,
                "code": "xid",
                "level": "error",
                "sentence": f"The driver reported error Xid {xid.code} for {xid.uuid}: see dmesg and NVIDIA's list of "
                "Xid errors.",
            }
            for xid in sample.xids
        ]
        if not own:
            return records
        begin = sample.time_s - sample.interval_s
        each = {gpu.uuid: self._series(gpu, begin) for gpu in own}
        self.series = averaged(list(each.values()))
        self.by_gpu = {uuid: known(series) for uuid, series in each.items()}
        kept = {gpu.uuid: logged(gpu, self._device.get(gpu.uuid, _UNKNOWN)) for gpu in own}
        for uuid, readings in kept.items():
            self.steady.add(uuid, flat(readings), begin)
            if "energy_j" in readings:
                self._energy[uuid] = readings["energy_j"]
        told = {uuid: readings for uuid, readings in kept.items() if readings}
        if told:
            records.append({"type": "gpu", "t": sample.time_s, "seconds": sample.interval_s, "gpus": told})
        return records

    def _series(self, reading: GpuReadings, begin: float) -> dict[str, Any]:
        recent = self._recent.setdefault(reading.uuid, deque(maxlen=MIN_STUCK_SAMPLES))
        recent.append((begin, reading))
        counters = window([reading])
        if stuck_counters(window([each for _, each in recent])) is not None:
            counters = without_stuck_counters(counters._replace(samples=len(recent)))
        return series_of(reading, counters, self._device.get(reading.uuid, _UNKNOWN), self.peak)

    def counters(self, since: float) -> list[Counters]:
        """The counters of each of the job's GPUs over its last samples that began after `since` (Unix time)."""
        recent = [[each for begin, each in readings if begin >= since] for readings in self._recent.values()]
        return [window(readings) for readings in recent if readings]

    def for_board(self) -> dict[str, Any]:
        """What the agents publish, divide by, and write into a passport of their own."""
        means = self.steady.means()
        for uuid, joules in self._energy.items():
            if uuid in means:
                means[uuid]["energy_j"] = joules
        told: dict[str, Any] = {
            "hardware": {**self._driver, **self.hardware},
            "gpu": means,
            "devices_per_rank": self.devices_per_rank,
        }
        if not isinstance(self.peak, Absent):
            told["peak_tflops"] = self.peak.tflops
        return told


_NO_LIBRARY = (12, 13)
_UNKNOWN = Absent("not described")


def _listed(gpu: GpuDescription) -> dict[str, str]:
    return {"name": gpu.cuda_name, "uuid": gpu.uuid}


def _about_driver(sampler: GpuSampler) -> Record:
    first = sampler.devices[0]
    record: Record = {"type": "hardware"}
    if not isinstance(first.driver_version, Absent):
        record["driver"] = first.driver_version
    if not isinstance(first.cuda_version, Absent):
        record["cuda"] = first.cuda_version
    if sampler.assumed:
        record["gpus_assumed"] = sampler.assumed
    return record


def _with_remedy(reason: str) -> str:
    return reason if reason.endswith("--peak-tflops") else f"{reason}; give --peak-tflops"
