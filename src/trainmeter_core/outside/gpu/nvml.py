"""The one place where NVML is called: every failure becomes an `Absent` with its reason and code.

NVML is reached through nvidia-ml-py, if it is installed. Nothing here initializes CUDA, and nothing changes the device.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar

from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Callable

UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, TIMEOUT = 1, 3, 4, 10
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, OUR_SIDE = 12, 13, 15, -1

_MEANING = {
    1: "the driver library is not initialized",
    2: "the driver refused the request",
    3: "not supported by this GPU or driver",
    4: "no permission",
    6: "not found",
    9: "the NVIDIA driver is not loaded",
    10: "the driver did not answer in time",
    11: "the GPU has an interrupt problem",
    12: "no NVIDIA driver library (libnvidia-ml.so.1) on this machine",
    13: "this driver is too old for it",
    15: "the GPU is lost (fallen off the bus)",
    16: "the GPU needs a reset",
    17: "the operating system blocked the request",
    18: "the driver library and the kernel module are of different versions",
    19: "in use",
    20: "the driver has no memory left",
    21: "no data",
    23: "the driver has no resources left",
    25: "this driver has another version of the request",
    26: "the driver no longer offers it",
    27: "not ready",
    28: "no such GPU",
    29: "the GPU is in a state that does not allow it",
    999: "unknown driver error",
}
# What will not change while this driver runs; asked again seldom, since permissions and MIG modes do change.
_SETTLED = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND, 25, 26, OUR_SIDE})
# The call itself is what the driver does not have or take, so another one may do.
_OTHER_CALL = frozenset({2, NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26, OUR_SIDE})
# After these the handle or the whole library is of no use any more.
LOST = frozenset({UNINITIALIZED, 9, GPU_IS_LOST, 16, 18, 28, 999})
_SETTLED_RETRY_S, _LONGEST_SETTLED_S, _LONGEST_RETRY_S = 60.0, 600.0, 60.0

T = TypeVar("T")


class Refused(Absent):
    """What NVML would not tell, with its error code."""

    __slots__ = ("code",)

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class Nvml:
    """nvidia-ml-py behind one door. `failures` counts the calls that failed."""

    def __init__(self) -> None:
        self.failures = 0
        self._module: Any = None
        try:
            self._module = importlib.import_module("pynvml")
        except ImportError:
            self.missing: Absent | None = Absent("nvidia-ml-py is not installed: pip install 'trainmeter[gpu]'")
        else:
            self.missing = None

    def ask(self, function: str, *args: Any, **kwargs: Any) -> Any:
        """What `pynvml.<function>(*args)` returns, or `Refused`; never raises an Exception."""
        call = getattr(self._module, function, None)
        if call is None:
            reason = self.missing.reason if self.missing is not None else f"this nvidia-ml-py has no {function}"
            return Refused(reason, FUNCTION_NOT_FOUND)
        try:
            return call(*args, **kwargs)
        except self._module.NVMLError as error:  # the driver's own answer
            self.failures += 1
            return Refused(_MEANING.get(error.value, f"driver error {error.value}"), int(error.value))
        except Exception as error:  # noqa: BLE001 (the wrapper's own: a name that is not UTF-8, a struct it cannot fill)
            self.failures += 1
            return Refused(f"{function} failed: {type(error).__name__}", OUR_SIDE)

    def constant(self, name: str) -> Any:
        """A constant or class of nvidia-ml-py, or None where this version has none."""
        return getattr(self._module, name, None)


class Backoff:
    """When to ask again: at once after the first failure, then after 1, 2, 4 … 60 s; seldom for what is settled."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    def ready(self) -> bool:
        return self._failures == 0 or self._clock() >= self._until

    def worked(self) -> None:
        self._failures = 0

    def failed(self, code: int) -> None:
        self._failures = min(self._failures + 1, 20)
        if code in _SETTLED:
            wait = min(_SETTLED_RETRY_S * 2 ** (self._failures - 1), _LONGEST_SETTLED_S)
        else:
            wait = 0.0 if self._failures == 1 else min(2.0 ** (self._failures - 2), _LONGEST_RETRY_S)
        self._until = self._clock() + wait


class Probe(Generic[T]):
    """One question to the driver, asked alone: its failure costs no other reading, and it is asked again later.

    While it waits, `read` gives the last refusal.
    """

    def __init__(self, ask: Callable[[], T | Absent], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._backoff = Backoff(clock)
        self._refused = Absent("not sampled")

    def read(self) -> T | Absent:
        if not self._backoff.ready():
            return self._refused
        value = self._ask()
        if isinstance(value, Refused):
            self._backoff.failed(value.code)
            self._refused = value
        elif not isinstance(value, Absent):
            self._backoff.worked()
        return value


def wants_other_call(value: object) -> bool:
    """True for a refusal of this call as such, not of this moment: only then is a fallback worth asking."""
    return isinstance(value, Refused) and value.code in _OTHER_CALL


def is_lost(value: object) -> TypeGuard[Refused]:
    """True for a refusal that says the handle or the library is gone."""
    return isinstance(value, Refused) and value.code in LOST
