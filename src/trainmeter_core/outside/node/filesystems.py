"""Space on the node's own file systems and in /dev/shm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .tree import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tree import Tree

# A network file system whose server is gone blocks whoever asks it, for ever: those are never asked.
_LOCAL = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "reiserfs", "overlay", "ufs")
)
_REMOTE = frozenset(
    ("nfs", "nfs4", "lustre", "cifs", "smb3", "ceph", "gpfs", "beegfs", "glusterfs", "9p", "afs", "wekafs")
)
_MOUNTS_EVERY_S = 30.0


class FileSystems:
    """Bytes now, of each local file system once, whatever number of places it is mounted at."""

    series = ("node/fs_", "node/shm_")

    def __init__(self, tree: Tree, statvfs: Callable[[str], os.statvfs_result] = os.statvfs) -> None:
        self._tree = tree
        self._statvfs = statvfs
        self._mounts: dict[str, str] = {}
        self._mounts_read_at = float("-inf")
        self.missing: dict[str, str] = {}

    def sample(self, now: float) -> dict[str, float]:
        if now - self._mounts_read_at >= _MOUNTS_EVERY_S:
            self._mounts, self._mounts_read_at = self._local_mounts(), now
        values: dict[str, float] = {}
        for key, mount in self._mounts.items():
            used = self._used(mount)
            if used is not None:
                values[f"node/fs_used_bytes/{key}"], values[f"node/fs_used_pct/{key}"] = used
        shares = [value for name, value in values.items() if name.startswith("node/fs_used_pct/")]
        if shares:
            values["node/fs_used_pct"] = max(shares)
        else:
            self.missing["node/fs_"] = "no local file system is mounted"
        shm = self._used("/dev/shm")  # noqa: S108  looked at, not used
        if shm is None:
            self.missing["node/shm_"] = "there is no /dev/shm"
        else:
            values["node/shm_used_bytes"], values["node/shm_used_pct"] = shm
        return values

    def describe(self) -> dict[str, int]:
        """`shm_bytes`: the size of /dev/shm; OSError when there is none."""
        at = self._statvfs(self._tree.path("dev/shm"))
        return {"shm_bytes": at.f_blocks * at.f_frsize}

    def _used(self, mount: str) -> tuple[float, float] | None:
        try:
            at = self._statvfs(self._tree.path(mount))
        except OSError:  # unmounted meanwhile, or not ours to see
            return None
        used, usable = (at.f_blocks - at.f_bfree) * at.f_frsize, (at.f_blocks - at.f_bfree + at.f_bavail) * at.f_frsize
        return (float(used), 100.0 * used / usable) if usable > 0 else None

    def _local_mounts(self) -> dict[str, str]:
        """Series key → mount point."""
        found: dict[str, str] = {}
        devices = set()
        for line in self._tree.text("proc/self/mounts").splitlines():
            device, mount, kind, *_ = line.split()
            mount = mount.replace(r"\040", " ")
            if kind in _REMOTE:
                self.missing[f"node/fs_used_bytes/{_key(mount)}"] = f"{kind}: asking a network file system may hang"
            # An overlay is the root of a container; those seen elsewhere are other containers' roots.
            if kind not in _LOCAL or device in devices or (kind == "overlay" and mount != "/"):
                continue
            if not os.path.isdir(self._tree.path(mount)):  # a container's /etc/hosts and the like
                continue
            devices.add(device)
            found[_key(mount)] = mount
        return found


def _key(mount: str) -> str:
    return key_of(mount) or "root"
