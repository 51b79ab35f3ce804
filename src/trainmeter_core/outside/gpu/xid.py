"""Xid errors as they happen: a thread that waits for the driver's events, and nothing else."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from trainmeter_core.outside.gpu.nvml import TIMEOUT, Refused
from trainmeter_core.outside.gpu.readings import Xid
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainmeter_core.outside.gpu.nvml import Nvml

_XID_EVENT = 0x8
_WAIT_MS = 500  # how long `stop` may take; the wait itself costs nothing
_LONGEST_PAUSE_S = 60.0
_KEPT = 1000


class XidWatch:
    """Collects Xid events of the given GPUs; `absent` says why none can be had (WSL, vGPU, an old driver)."""

    def __init__(self, nvml: Nvml) -> None:
        self.absent: Absent | None = Absent("not started")
        self._nvml = nvml
        self._found: deque[Xid] = deque(maxlen=_KEPT)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, handles: Mapping[str, Any]) -> None:
        """Watches the GPUs of `handles` (UUID of the whole GPU -> NVML handle), replacing any earlier watch."""
        self.stop()
        events = self._nvml.ask("nvmlEventSetCreate")
        if isinstance(events, Absent):
            self.absent = events
            return
        watched, refused = {}, Absent("no GPU to watch")
        for uuid, handle in handles.items():
            answer = self._nvml.ask("nvmlDeviceRegisterEvents", handle, _XID_EVENT, events)
            if isinstance(answer, Absent):
                refused = answer
            else:
                watched[_address(handle)] = uuid
        if not watched:
            self._nvml.ask("nvmlEventSetFree", events)
            self.absent = refused
            return
        self.absent = None
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._wait, args=(events, watched, self._stop), name="trainmeter-xid", daemon=True
        )
        self._thread.start()

    def drain(self) -> tuple[Xid, ...]:
        """What came since the last call."""
        return tuple(self._found.popleft() for _ in range(len(self._found)))

    def stop(self) -> None:
        """Ends the watch; must come before the library is shut down."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=4 * _WAIT_MS / 1000)
            self._thread = None
        self.absent = Absent("stopped")

    def _wait(self, events: Any, watched: Mapping[int | None, str], stop: threading.Event) -> None:
        pause = 1.0
        while not stop.is_set():
            answer = self._nvml.ask("nvmlEventSetWait_v2", events, _WAIT_MS)
            if isinstance(answer, Refused):
                if answer.code == TIMEOUT:
                    self._nvml.failures -= 1  # how the driver says that nothing happened
                    pause = 1.0
                else:
                    stop.wait(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            pause = 1.0
            uuid = watched.get(_address(answer.device))
            if answer.eventType == _XID_EVENT and uuid is not None:
                self._found.append(Xid(time.time(), uuid, int(answer.eventData)))
        self._nvml.ask("nvmlEventSetFree", events)


def _address(handle: Any) -> int | None:
    """A handle's value: two handles of one GPU are equal pointers, in different Python objects."""
    return ctypes.cast(handle, ctypes.c_void_p).value
