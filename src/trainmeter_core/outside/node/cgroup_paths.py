"""Where this process's control groups are mounted: version 1, version 2, or both at once (hybrid)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .tree import Tree


_ROOT, _POINT = 3, 4  # columns of mountinfo


class Hierarchy(NamedTuple):
    """The group that holds this process, and all above it that can be seen.

    `levels` are folders, the process's own group first, the topmost last: a limit on any of them binds.
    """

    version: int
    levels: tuple[str, ...]


class _Mount(NamedTuple):
    root: str
    point: str
    kind: str
    options: frozenset[str]


def hierarchy(tree: Tree, controller: str) -> Hierarchy | None:
    """The groups that `controller` (cpu, cpuacct, memory) rules this process by, or None.

    On a hybrid host a controller belongs to version 1 if /proc/self/cgroup names it there; the unified hierarchy then
    exists without it.
    """
    paths: dict[str, str] = {}
    for line in (tree.maybe("proc/self/cgroup") or "").splitlines():
        _, _, names_path = line.partition(":")
        names, colon, path = names_path.partition(":")
        if colon:
            paths.update(dict.fromkeys(names.split(","), path))
    mounts = _mounts(tree)
    if controller in paths:
        for mount in mounts:
            if mount.kind == "cgroup" and controller in mount.options:
                return Hierarchy(1, _levels(mount, paths[controller]))
    if "" in paths and controller not in paths:
        for mount in mounts:
            if mount.kind == "cgroup2":
                return Hierarchy(2, _levels(mount, paths[""]))
    return None


def _mounts(tree: Tree) -> list[_Mount]:
    found = []
    for line in (tree.maybe("proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, source_options = after.partition(" ")
        words = before.split()
        if kind.startswith("cgroup") and len(words) > _POINT:
            root, point = (word.replace(r"\040", " ") for word in words[_ROOT : _POINT + 1])
            found.append(_Mount(root, point, kind, frozenset(source_options.partition(" ")[2].split(","))))
    return found


def _levels(mount: _Mount, path: str) -> tuple[str, ...]:
    """Folders from the group at `path` up to the mount point.

    In a container the mount often shows only the container's own part (`root`), and `path` may still be the host's:
    what is not below `root` is the mount point itself.
    """
    root = mount.root.rstrip("/")
    inside = path == root or path.startswith(root + "/")
    parts = [part for part in path[len(root) :].split("/") if part] if inside and "/.." not in path else []
    return tuple("/".join((mount.point, *parts[:depth])) for depth in range(len(parts), -1, -1))
