"""Every series of the node: name, unit, what its last part names (if it is one of several), one-line meaning."""

from __future__ import annotations

from typing import NamedTuple


class NodeSeries(NamedTuple):
    """One row; with `per`, the name in a sample is `name/<key>`, and a plain `name` is their total if `total` says so.

    `total` is "sum", "max" or "" (there is no total).
    """

    name: str
    unit: str
    meaning: str
    per: str = ""
    total: str = ""


SERIES: tuple[NodeSeries, ...] = (
    # Processors: the whole host, in percent of all its cores.
    NodeSeries("node/cpu_pct", "%", "busy: everything but idle and iowait"),
    NodeSeries("node/cpu_user_pct", "%", "in programs, nice and guests included"),
    NodeSeries("node/cpu_system_pct", "%", "in the kernel, interrupts included"),
    NodeSeries("node/cpu_iowait_pct", "%", "idle while a disk or network file was awaited"),
    NodeSeries("node/cpu_steal_pct", "%", "wanted, but taken by the hypervisor for other guests"),
    NodeSeries("node/cpu_idle_pct", "%", "idle"),
    NodeSeries("node/cpu_core_pct", "%", "busy, one core: a single 100 is a loader on one process", per="core"),
    NodeSeries("node/load_1", "tasks", "running or uninterruptible, mean over 1 minute"),
    NodeSeries("node/load_5", "tasks", "the same over 5 minutes"),
    NodeSeries("node/load_15", "tasks", "the same over 15 minutes"),
    NodeSeries("node/runnable_tasks", "tasks", "running or waiting for a core, now"),
    NodeSeries("node/blocked_tasks", "tasks", "blocked on I/O, now"),
    # Memory: the whole host.
    NodeSeries("node/mem_used_bytes", "B", "not available to new programs, without the ZFS cache"),
    NodeSeries("node/mem_used_pct", "%", "the same, of all memory"),
    NodeSeries("node/mem_available_bytes", "B", "free or freed at need, by the kernel's own estimate"),
    NodeSeries("node/mem_cache_bytes", "B", "page cache, buffers and reclaimable slab, without shared memory"),
    NodeSeries("node/mem_shared_bytes", "B", "shared memory and tmpfs, /dev/shm included"),
    NodeSeries("node/mem_zfs_arc_bytes", "B", "ZFS's own cache, which the kernel counts as used"),
    NodeSeries("node/swap_used_bytes", "B", "swapped out"),
    NodeSeries("node/swap_used_pct", "%", "the same, of all swap"),
    NodeSeries("node/shm_used_bytes", "B", "used in /dev/shm, where loader workers pass batches"),
    NodeSeries("node/shm_used_pct", "%", "the same, of its limit: at 100 loader workers die with a bus error"),
    # This job's control group: what it uses of what it may use.
    NodeSeries("node/cgroup_cpu_cores", "cores", "cores busy for this control group"),
    NodeSeries("node/cgroup_cpu_pct", "%", "the same, of the tightest quota or the cores it may run on"),
    NodeSeries("node/cgroup_throttled_pct", "%", "scheduling periods in which the quota was used up"),
    NodeSeries("node/cgroup_mem_used_bytes", "B", "memory of this control group that cannot be dropped"),
    NodeSeries("node/cgroup_mem_pct", "%", "of the tightest limit above it: at 100 the kernel kills"),
    NodeSeries("node/cgroup_oom_kills", "count", "processes of this control group killed for memory so far"),
    # Storage.
    NodeSeries("node/fs_used_bytes", "B", "used on a local file system", per="mount point"),
    NodeSeries("node/fs_used_pct", "%", "the same, of what users may use", per="mount point", total="max"),
    NodeSeries("node/disk_read_bytes_per_s", "B/s", "read from a disk", per="disk", total="sum"),
    NodeSeries("node/disk_write_bytes_per_s", "B/s", "written to a disk", per="disk", total="sum"),
    NodeSeries("node/disk_busy_pct", "%", "time with a request in flight", per="disk", total="max"),
    NodeSeries("node/disk_read_wait_s", "s", "mean time of a read, queue included", per="disk"),
    NodeSeries("node/disk_write_wait_s", "s", "mean time of a write, queue included", per="disk"),
    NodeSeries("node/disk_queue", "requests", "mean number of requests in flight", per="disk"),
    # Network.
    NodeSeries("node/net_recv_bytes_per_s", "B/s", "received", per="interface", total="sum"),
    NodeSeries("node/net_sent_bytes_per_s", "B/s", "sent", per="interface", total="sum"),
    NodeSeries("node/net_lost_per_s", "packets/s", "dropped or in error, both ways", per="interface", total="sum"),
    NodeSeries("node/ib_recv_bytes_per_s", "B/s", "received by RDMA ports", per="port", total="sum"),
    NodeSeries("node/ib_sent_bytes_per_s", "B/s", "sent by RDMA ports", per="port", total="sum"),
    # Pressure: the whole host, time some or all tasks stood still for want of something.
    NodeSeries("node/psi_cpu_some_pct", "%", "some task waited for a core"),
    NodeSeries("node/psi_io_some_pct", "%", "some task waited for I/O"),
    NodeSeries("node/psi_io_full_pct", "%", "all tasks that could run waited for I/O"),
    NodeSeries("node/psi_memory_some_pct", "%", "some task waited for memory"),
    NodeSeries("node/psi_memory_full_pct", "%", "all tasks that could run waited for memory"),
    # Sensors, every 10 seconds.
    NodeSeries("node/temp_c", "°C", "a temperature sensor", per="sensor"),
    NodeSeries("node/fan_rpm", "rpm", "a fan", per="sensor"),
)

_BY_NAME = {row.name: row for row in SERIES}


def series_of(name: str) -> NodeSeries:
    """The row a sample's `name` belongs to, with or without its key; KeyError when there is none.

    >>> series_of("node/net_recv_bytes_per_s/eth0").per
    'interface'
    """
    base = "/".join(name.split("/", 2)[:2])
    row = _BY_NAME[base]
    if name != base and not row.per:
        raise KeyError(name)
    return row
