"""Limits of control groups, version 1, 2 and hybrid: the true denominators."""

from __future__ import annotations

import pytest

GIB = 1 << 30
NO_LIMIT_V1 = 9223372036854771712


def test_the_tightest_limit_above_counts(v2):
    facts = v2.sampler().describe()
    assert facts["cgroup_version"] == 2
    assert facts["cgroup_cpu_cores"] == facts["usable_cores"] == 8
    assert facts["cgroup_memory_bytes"] == facts["usable_memory_bytes"] == 4 * GIB
    assert facts["memory_bytes"] == 16 * GIB


def test_use_is_measured_where_the_limit_is(v2, two_looks):
    """The task used 2 cores, the whole job 6 of its 8."""

    def work():
        v2.write(f"{v2.job}/step_0/task_0/cpu.stat", "usage_usec 5000000\nnr_periods 120\nnr_throttled 10\n")
        v2.write(f"{v2.job}/cpu.stat", "usage_usec 13000000\nnr_periods 120\nnr_throttled 15\n")
        v2.write(f"{v2.job}/memory.current", f"{4 * GIB}\n")

    values = two_looks(work)
    assert values["node/cgroup_cpu_cores"] == pytest.approx(2)
    assert values["node/cgroup_cpu_pct"] == pytest.approx(75)
    assert values["node/cgroup_throttled_pct"] == pytest.approx(25)
    assert values["node/cgroup_mem_used_bytes"] == GIB  # cache that would be dropped first is not counted
    assert values["node/cgroup_mem_pct"] == pytest.approx(75)
    assert values["node/cgroup_oom_kills"] == 2


def test_the_cores_a_process_may_run_on_are_a_limit_too(v2):
    v2.allow("0-3,64")
    assert v2.sampler().describe()["usable_cores"] == 5


def test_a_mask_that_names_cores_that_do_not_exist_is_cut(v2):
    v2.allow("0-255")
    v2.write(f"{v2.job}/cpu.max", "max 100000\n")
    v2.write(f"{v2.job}/step_0/task_0/cpu.max", "max 100000\n")
    assert v2.sampler().describe()["usable_cores"] == 128


def test_a_limit_changed_while_the_run_goes_on_is_seen(v2):
    sampler = v2.sampler()
    assert sampler.sample()["node/cgroup_mem_pct"] == pytest.approx(25)
    v2.write(f"{v2.job}/memory.max", f"{2 * GIB}\n")
    v2.now += 10
    assert sampler.sample()["node/cgroup_mem_pct"] == pytest.approx(50)


def test_in_a_container_with_its_own_view_the_mount_is_the_group(machine):
    """A cgroup namespace: the path is / and the mount's root is / as well."""
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
    machine.write("sys/fs/cgroup/cpu.max", "150000 100000\n")
    machine.write("sys/fs/cgroup/memory.max", f"{GIB}\n")
    facts = machine.sampler().describe()
    assert (facts["usable_cores"], facts["usable_memory_bytes"]) == (1.5, GIB)


def test_in_a_container_with_the_hosts_paths_the_mount_shows_only_its_own_part(machine):
    """Docker on version 1 without a namespace: /proc/self/cgroup still speaks of the host."""
    machine.write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n")
    machine.write(
        "proc/self/mountinfo",
        "40 30 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "41 30 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
    )
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{3 * GIB}\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    facts = machine.sampler().describe()
    assert (facts["cgroup_version"], facts["usable_cores"], facts["usable_memory_bytes"]) == (1, 2.5, 3 * GIB)


@pytest.fixture
def hybrid(machine):
    """Controllers in version 1, and the unified tree beside them without any."""
    machine.write("proc/self/cgroup", "4:memory:/job\n2:cpuacct:/job\n1:cpu:/job\n0::/job\n")
    machine.write(
        "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
        "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    )
    machine.allow("0-3")
    for folder in ("", "/job"):
        machine.write(f"sys/fs/cgroup/cpu{folder}/cpu.cfs_quota_us", "-1\n")
        machine.write(f"sys/fs/cgroup/cpu{folder}/cpu.cfs_period_us", "100000\n")
        machine.write(f"sys/fs/cgroup/cpuacct{folder}/cpuacct.usage", "1000000000\n")
        machine.write(f"sys/fs/cgroup/memory{folder}/memory.limit_in_bytes", f"{NO_LIMIT_V1}\n")
        machine.write(f"sys/fs/cgroup/memory{folder}/memory.usage_in_bytes", f"{GIB}\n")
        machine.write(
            f"sys/fs/cgroup/memory{folder}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"
        )
    return machine


def test_hybrid_without_limits_has_the_hosts_sizes_and_says_so(hybrid, two_looks):
    sampler = hybrid.sampler()
    facts = sampler.describe()
    assert "cgroup_cpu_cores" not in facts
    assert "cgroup_memory_bytes" not in facts
    assert (facts["cgroup_version"], facts["usable_cores"], facts["usable_memory_bytes"]) == (1, 4, 16 * GIB)
    sampler.sample()
    assert sampler.gaps["node/cgroup_mem_pct"] == "no memory limit"
    assert sampler.gaps["node/cgroup_throttled_pct"] == "no processor quota"
    values = two_looks(lambda: hybrid.write("sys/fs/cgroup/cpuacct/job/cpuacct.usage", "5000000000\n"))
    assert values["node/cgroup_cpu_cores"] == pytest.approx(2)
    assert values["node/cgroup_cpu_pct"] == pytest.approx(50)
    assert values["node/cgroup_oom_kills"] == 1


def test_a_version_1_limit_above_what_is_mounted_is_known_from_the_hierarchy(hybrid):
    hybrid.write("sys/fs/cgroup/memory/job/memory.stat", f"cache 5\nhierarchical_memory_limit {6 * GIB}\n")
    assert hybrid.sampler().describe()["usable_memory_bytes"] == 6 * GIB


def test_without_control_groups_there_is_the_reason(machine):
    sampler = machine.sampler()
    assert not [name for name in sampler.sample() if "cgroup" in name]
    assert sampler.gaps["node/cgroup_cpu_pct"] == "no control group accounts for processors"
    assert sampler.gaps["node/cgroup_mem_pct"] == "no control group for memory"
