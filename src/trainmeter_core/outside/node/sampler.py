"""One look at the whole node: every subject alone, so that a broken one costs only itself."""

from __future__ import annotations

import math
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .cgroup import ControlGroup
from .cpu import Cpu
from .disks import Disks
from .filesystems import FileSystems
from .host import describe_host
from .infiniband import InfiniBand
from .memory import Memory
from .network import VIRTUAL, Network
from .pressure import Pressure
from .sensors import Sensors
from .series import SERIES
from .tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Told = TypeVar("_Told", bound="dict[str, Any]")


class Subject(Protocol):
    """One file's worth of the node."""

    missing: dict[str, str]
    """Beginning of a series name → why it cannot be known here."""

    @property
    def series(self) -> tuple[str, ...]:
        """What the names of its series begin with."""

    def sample(self, now: float) -> dict[str, float]:
        """Series → value; `now` is in seconds of a monotonic clock."""


class NodeSampler:
    """Samples the node; one thread at a time.

    `root` is where /proc, /sys and the mounts are found, `skip_interfaces` are patterns of network interfaces to leave
    out, `clock` gives monotonic seconds, `tree` may note
    what is read. Rates appear from the second sample on.
    """

    def __init__(
        self,
        root: str = "/",
        *,
        skip_interfaces: Sequence[str] = VIRTUAL,
        clock: Callable[[], float] = time.monotonic,
        statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
        tree: Tree | None = None,
    ) -> None:
        self._tree = Tree(root) if tree is None else tree
        self._clock = clock
        self._subjects: tuple[Subject, ...]
        self._failed: dict[str, str] = {}
        self._described: dict[str, str] = {}
        self._seen: set[str] = set()
        self._linux = self._tree.exists("proc/stat")
        if self._linux:
            self._network = Network(self._tree, skip_interfaces)
            self._infiniband = InfiniBand(self._tree)
            self._filesystems = FileSystems(self._tree, statvfs)
            self._cgroup = ControlGroup(self._tree)
            self._subjects = (
                Cpu(self._tree),
                Memory(self._tree),
                self._cgroup,
                self._filesystems,
                Disks(self._tree),
                self._network,
                self._infiniband,
                Pressure(self._tree),
                Sensors(self._tree),
            )
        else:
            from .portable import Portable

            self._portable = Portable()
            self._subjects = (self._portable,)

    def describe(self) -> dict[str, Any]:
        """What stays as it is: names, sizes, limits; what is not known is in `gaps`."""
        if not self._linux:
            return self._portable.describe()
        facts, self._described = describe_host(self._tree)
        for names, tell in (
            (("usable_cores", "usable_memory_bytes"), self._cgroup.describe),
            (("shm_bytes",), self._filesystems.describe),
            (("interfaces",), self._network.describe),
            (("links",), self._infiniband.describe),
        ):
            facts |= _guarded(tell, names, self._described)
        return facts

    def sample(self) -> dict[str, float]:
        """Series → value now; unknown ones are not in it."""
        now = self._clock()
        values: dict[str, float] = {}
        for subject in self._subjects:
            values |= _guarded(partial(subject.sample, now), subject.series, self._failed)
        values = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        self._seen.update("/".join(name.split("/", 2)[:2]) for name in values)
        return values

    @property
    def gaps(self) -> dict[str, str]:
        """Series, or fact of `describe`, → why it is not known on this node.

        Only what never had a value, or has failed since; a rate that waits for its second sample is no gap.
        """
        missing = dict(self._failed)
        for subject in self._subjects:
            missing |= subject.missing
        gaps = dict(self._described)
        for row in SERIES:
            beginnings = [name for name in missing if row.name.startswith(name)]
            if beginnings and (row.name not in self._seen or any(name in self._failed for name in beginnings)):
                gaps[row.name] = missing[max(beginnings, key=len)]
        # One of several, such as a network file system or a slow sensor, with the others known.
        gaps |= {name: reason for name, reason in missing.items() if name.count("/") > 1}
        return gaps


def _guarded(work: Callable[[], _Told], names: Sequence[str], failed: dict[str, str]) -> _Told | dict[str, Any]:
    """What `work` returns, or nothing and the error as the reason for each of `names` in `failed`."""
    try:
        told = work()
    except Exception as error:  # noqa: BLE001  a file that vanished, or of a form no kernel had before
        failed |= dict.fromkeys(names, f"{type(error).__name__}: {error}")
        return {}
    for name in names:
        failed.pop(name, None)
    return told
