"""The GPU sampler of tm's own process: the job's GPUs, averaged over each interval, whatever the driver does."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from trainmeter_core.outside.gpu.device import Gpu
from trainmeter_core.outside.gpu.inventory import list_gpus
from trainmeter_core.outside.gpu.nvml import Backoff, Nvml, Refused
from trainmeter_core.outside.gpu.readings import GpuSample
from trainmeter_core.outside.gpu.visible import select
from trainmeter_core.outside.gpu.xid import XidWatch
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainmeter_core.outside.gpu.readings import GpuDescription

_OUR_FAULT = 0  # no NVML code: asked again like a passing failure


class GpuSampler:
    """Samples the GPUs that a job with this environment sees, known by UUID.

    `devices` describes them once; `absent` says why there are none; `assumed` what was assumed to tell which are the
    job's. Each `sample` covers the time since the one before (the first: since the sampler was made) and never raises.
    Opens the driver in the calling process: use it in tm's own, never in one that forks trainers.
    Not for several threads at once.
    """

    def __init__(
        self,
        visible: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        watch_xids: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.devices: tuple[GpuDescription, ...] = ()
        self.absent: Absent | None = None
        self.assumed: str | None = None
        self.guarded = 0
        self._visible = environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
        self._order = environ.get("CUDA_DEVICE_ORDER")
        self._clock = clock
        self._nvml = Nvml()
        self._xid = XidWatch(self._nvml)
        self._watch = watch_xids
        self._gpus: list[Gpu] = []
        self._open = False
        self._retry = Backoff(clock)
        self._sampled_at = clock()
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 (a driver's answer that no code here foresees must not stop a job)
            self._unforeseen(error)

    @property
    def xid_absent(self) -> Absent | None:
        """Why no Xid errors can be seen, or None."""
        return self._xid.absent

    def sample(self) -> GpuSample:
        """Every GPU's readings over the time since the last call; sample again after 0.1 s at the earliest."""
        now = self._clock()
        seconds, self._sampled_at = now - self._sampled_at, now
        try:
            return self._sample(seconds)
        except Exception as error:  # noqa: BLE001 (the same)
            return GpuSample(time.time(), seconds, absent=self._unforeseen(error), failures=self._nvml.failures)

    def close(self) -> None:
        """Frees what the driver holds for us; `sample` afterwards opens it again."""
        self._shut_down(Absent("the sampler was closed"))

    def _sample(self, seconds: float) -> GpuSample:
        lost_all = bool(self._gpus) and all(gpu.lost is not None for gpu in self._gpus)
        if self._open and lost_all and self._retry.ready():
            self._shut_down(next(gpu.lost for gpu in self._gpus if gpu.lost is not None))
        if not self._open and self._retry.ready():
            self._start()
        lost = {gpu.listed.uuid for gpu in self._gpus if gpu.lost is not None}
        gpus = tuple(gpu.read() for gpu in self._gpus)
        if any(gpu.lost is None and gpu.listed.uuid in lost for gpu in self._gpus):
            self._watch_xids()
        if self._open and not lost_all and self._gpus and all(gpu.lost is not None for gpu in self._gpus):
            self._retry.failed(_OUR_FAULT)
        return GpuSample(
            time_s=time.time(),
            interval_s=seconds,
            gpus=gpus,
            absent=None if gpus else self.absent,
            xids=self._xid.drain(),
            failures=self._nvml.failures,
        )

    def _start(self) -> None:
        """Opens the driver's library and the job's GPUs; on failure says why in `absent`, to be tried again later."""
        opened = self._nvml.ask("nvmlInit")
        if isinstance(opened, Refused):
            self._not_now(opened, opened.code)
            return
        self._open = True
        if not self._gpus:
            listed = list_gpus(self._nvml)
            chosen = listed if isinstance(listed, Absent) else select(listed, self._visible, self._order)
            if isinstance(chosen, Absent):
                self._not_now(chosen, getattr(chosen, "code", _OUR_FAULT))
                self._shut_down(chosen)
                return
            self.assumed = chosen.assumed
            self._gpus = [Gpu(self._nvml, gpu, self._clock) for gpu in chosen.gpus]
        attached = [gpu for gpu in self._gpus if gpu.attach()]
        if not attached:
            self._not_now(next(gpu.lost for gpu in self._gpus if gpu.lost is not None), _OUR_FAULT)
            return
        self.absent = None
        self._retry.worked()
        if not self.devices:
            self._describe()
        self._watch_xids()

    def _watch_xids(self) -> None:
        if not self._watch:
            return
        there = [gpu for gpu in self._gpus if gpu.lost is None and not isinstance(gpu.whole, Absent)]
        self._xid.start({gpu.listed.parent_uuid or gpu.listed.uuid: gpu.whole for gpu in there})

    def _describe(self) -> None:
        driver = self._nvml.ask("nvmlSystemGetDriverVersion")
        cuda = self._nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
        version = cuda if isinstance(cuda, Absent) else f"{cuda // 1000}.{cuda % 1000 // 10}"
        self.devices = tuple(gpu.describe(driver, version) for gpu in self._gpus)

    def _shut_down(self, why: Absent) -> None:
        self._xid.stop()
        for gpu in self._gpus:
            gpu.detach(why)
        if self._open:
            self._nvml.ask("nvmlShutdown")
        self._open = False

    def _not_now(self, why: Absent, code: int) -> None:
        self.absent = why
        self._retry.failed(code)

    def _unforeseen(self, error: Exception) -> Absent:
        self.guarded += 1
        self.absent = Absent(f"the GPU sampler failed: {type(error).__name__}: {error}")
        self._retry.failed(_OUR_FAULT)
        return self.absent
