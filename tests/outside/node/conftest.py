"""A machine made of files."""

from __future__ import annotations

import os

import pytest

from trainmeter_core.outside.node import NodeSampler

GIB = 1 << 30


class Machine:
    """A folder that looks like / to a NodeSampler, with a clock of its own."""

    def __init__(self, root):
        self.root = root
        self.now = 1000.0
        self.statvfs_of = {}

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(text))

    def remove(self, path):
        (self.root / path.lstrip("/")).unlink()

    def folder(self, path):
        (self.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def statvfs(self, path):
        mount = "/" + os.path.relpath(path, self.root).removeprefix(".")
        if mount not in self.statvfs_of:
            raise FileNotFoundError(mount)
        size, free, available = self.statvfs_of[mount]
        return os.statvfs_result((4096, 4096, size // 4096, free // 4096, available // 4096, 0, 0, 0, 0, 255))

    def sampler(self, **how):
        return NodeSampler(str(self.root), clock=lambda: self.now, statvfs=self.statvfs, **how)

    def allow(self, cpus):
        self.write("proc/self/status", f"Name:\ttm\nCpus_allowed_list:\t{cpus}\n")
        self.write("sys/devices/system/cpu/online", "0-127\n")

    def names(self):
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())


MEMINFO = """\
MemTotal:       16777216 kB
MemFree:         1048576 kB
MemAvailable:    8388608 kB
Buffers:          524288 kB
Cached:          4194304 kB
SReclaimable:     524288 kB
Shmem:           1048576 kB
SwapTotal:       2097152 kB
SwapFree:        1572864 kB
HugePages_Total:       0
"""
DISKSTATS = """\
   7       0 loop0 50 0 400 10 0 0 0 0 0 10 10 0 0 0 0 0 0
   8       0 sda 1000 0 8000 2000 500 0 4000 4000 0 3000 6000
   8       1 sda1 1000 0 8000 2000 500 0 4000 4000 0 3000 6000
 259       0 nvme0n1 10 0 80 10 10 0 80 10 0 20 20
 259       1 nvme0n1p1 10 0 80 10 10 0 80 10 0 20 20
 253       0 dm-0 10 0 80 10 10 0 80 10 0 20 20
   9     127 md127 10 0 80 10 10 0 80 10 0 20 20
"""
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9000 10 0 0 0 0 0 0 9000 10 0 0 0 0 0 0
  eth0:1000 10 0 0 0 0 0 0 2000 10 0 0 0 0 0 0
  ib0: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0
 bond0: 1000 10 0 0 0 0 0 0 2000 10 0 0 0 0 0 0
docker0: 77 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0
veth12ab: 77 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0
"""


@pytest.fixture
def machine(tmp_path):
    """Two cores, 16 GiB, two disks, one real network card; no control group, no sensors."""
    node = Machine(tmp_path)
    node.write(
        "proc/stat",
        "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0 0 0 0 0\nintr 1 2\nprocs_blocked 3\n",
    )
    node.write("proc/loadavg", "1.50 2.25 3.00 4/321 9999\n")
    node.write("proc/meminfo", MEMINFO)
    node.write("proc/diskstats", DISKSTATS)
    node.write("proc/net/dev", NET_DEV)
    node.folder("sys/class/net/eth0/device")
    node.write("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n")
    node.statvfs_of = {"/": (100 * GIB, 40 * GIB, 35 * GIB), "/dev/shm": (64 * GIB, 48 * GIB, 48 * GIB)}
    for resource in ("cpu", "io", "memory"):
        node.write(
            f"proc/pressure/{resource}",
            "some avg10=9.99 avg60=9.99 avg300=9.99 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
        )
    return node


@pytest.fixture
def two_looks(machine):
    """Sample, change the machine, sample again: the second values."""

    def look(change=lambda: None, seconds=2.0, **how):
        sampler = machine.sampler(**how)
        sampler.sample()
        change()
        machine.now += seconds
        return sampler.sample()

    return look


@pytest.fixture
def v2(machine):
    """A Slurm-like tree of version 2: the job has the limits, its step and task have none."""
    machine.allow("0-127")
    machine.write("proc/self/cgroup", "0::/slurm/job_7/step_0/task_0\n")
    machine.write(
        "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    root = "sys/fs/cgroup"
    for folder, cpu_max, memory_max in (
        ("/slurm", "max 100000", "max"),
        ("/slurm/job_7", "800000 100000", str(4 * GIB)),
        ("/slurm/job_7/step_0", "max 100000", "max"),
        ("/slurm/job_7/step_0/task_0", "1600000 100000", "max"),
    ):
        machine.write(f"{root}{folder}/cpu.max", cpu_max + "\n")
        machine.write(f"{root}{folder}/memory.max", memory_max + "\n")
        machine.write(f"{root}{folder}/memory.current", f"{2 * GIB}\n")
        machine.write(f"{root}{folder}/memory.stat", f"anon 1\ninactive_file {GIB}\n")
        machine.write(f"{root}{folder}/memory.events", "low 0\noom 1\noom_kill 2\n")
        machine.write(
            f"{root}{folder}/cpu.stat", "usage_usec 1000000\nnr_periods 100\nnr_throttled 10\nthrottled_usec 5\n"
        )
    machine.write(f"{root}/cpu.stat", "usage_usec 99\n")
    machine.job = f"{root}/slurm/job_7"
    return machine
