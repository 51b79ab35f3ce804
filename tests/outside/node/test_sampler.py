"""The node as a whole: nothing breaks it, nothing unknown becomes a number."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import psutil
import pytest

from trainmeter_core.outside.node import SERIES, NodeSampler, series_of
from trainmeter_core.outside.node.host import describe_cpu
from trainmeter_core.outside.node.portable import Portable


def test_every_value_has_a_row_and_every_row_a_value_or_a_reason_on_this_machine():
    sampler = NodeSampler()
    sampler.sample()
    for _ in range(200):  # some work, so that counters move
        Path("/proc/self/status").read_text()
    values = sampler.sample()
    for name in values:
        series_of(name)
    known = {series_of(name).name for name in values} | set(sampler.gaps)
    moving = {"node/disk_read_wait_s", "node/disk_write_wait_s", "node/temp_c", "node/fan_rpm"}  # only at times
    late = {row.name for row in SERIES if row.name.startswith(("node/cpu_", "node/cgroup_cpu"))}  # need clock ticks
    assert {row.name for row in SERIES} - known <= moving | late


def test_totals_are_there_exactly_where_the_table_says(machine, two_looks):
    values = two_looks()
    for row in SERIES:
        keyed = [name for name in values if name.startswith(row.name + "/")]
        if keyed:
            assert (row.name in values) == bool(row.total), row.name


def test_names_carry_their_unit():
    endings = {
        "%": "_pct", "B": "_bytes", "B/s": "_bytes_per_s", "packets/s": "_per_s", "s": "_s", "°C": "_c", "rpm": "_rpm",
    }  # fmt: skip
    for row in SERIES:
        assert re.fullmatch(r"node/[a-z0-9_]+", row.name)
        if row.unit in endings:
            assert row.name.endswith(endings[row.unit]), row
    assert len({row.name for row in SERIES}) == len(SERIES)


def test_an_unknown_name_has_no_row():
    with pytest.raises(KeyError):
        series_of("node/nothing")
    with pytest.raises(KeyError):
        series_of("node/cpu_pct/0")


@pytest.mark.parametrize("damage", ["", "garbage", "cpu x y\n8 0 sda 1 2\neth0: 1 2\n0:1\n", None, "\x00\xff" * 50])
def test_a_damaged_file_costs_its_own_series_and_changes_no_other_value(v2, damage):
    """Each file in turn: empty, nonsense, cut short, gone. A series is as it was, or it is absent: never a 0 instead."""
    v2.write("sys/class/hwmon/hwmon0/name", "nvme")
    v2.write("sys/class/hwmon/hwmon0/temp1_input", "41000")
    v2.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "100")
    v2.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "100")

    def two_looks():
        sampler = v2.sampler()
        sampler.describe()
        first = sampler.sample()
        v2.now += 1
        return first | sampler.sample()

    whole = two_looks()
    assert len(whole) > 40
    for path in v2.names():
        if path == "proc/stat" and damage is None:  # then there is no Linux here
            continue
        original = (v2.root / path).read_text()
        if damage is None:
            v2.remove(path)
        else:
            v2.write(path, damage)
        left = two_looks()
        v2.write(path, original)
        # A chip whose name cannot be read keeps its sensor under another key.
        changed = {name for name, value in left.items() if value != whole.get(name) and "node/temp_c/" not in name}
        assert not changed, path
        lost = {name.split("/")[1].split("_")[0] for name in set(whole) - set(left)}
        assert lost <= {"load", "runnable", "blocked"} or len(lost - {"swap", "shm"}) <= 1, path


def test_a_subject_that_fails_is_a_gap_with_the_error_until_it_works_again(machine):
    sampler = machine.sampler()
    sampler.sample()
    text = (machine.root / "proc/meminfo").read_text()
    machine.remove("proc/meminfo")
    assert "node/mem_used_bytes" not in sampler.sample()
    assert sampler.gaps["node/mem_used_bytes"].startswith("FileNotFoundError")
    machine.write("proc/meminfo", text)
    assert "node/mem_used_bytes" in sampler.sample()
    assert "node/mem_used_bytes" not in sampler.gaps


def test_the_description_names_the_machine(machine):
    machine.write("proc/sys/kernel/hostname", "node17\n")
    machine.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    machine.write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    machine.write("proc/cpuinfo", "".join(
        f"processor\t: {n}\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\nphysical id\t: {n // 4}\ncore id\t\t: {n % 2}\n\n"
        for n in range(8)
    ))  # fmt: skip
    for number in range(2):
        machine.folder(f"sys/devices/system/node/node{number}")
    facts = machine.sampler().describe()
    assert facts["host"] == "node17"
    assert facts["kernel"] == "6.8.0-45-generic"
    assert facts["os"] == "Ubuntu 24.04.1 LTS"
    assert facts["cpu_model"] == "Intel(R) Xeon(R) Platinum 8480C"
    assert [facts[f"cpu_{name}"] for name in ("threads", "cores", "sockets")] == [8, 4, 2]
    assert facts["numa_nodes"] == 2
    assert facts["interfaces"] == ["eth0", "ib0", "bond0"]


def test_what_a_machine_does_not_tell_of_itself_is_a_gap(machine):
    sampler = machine.sampler()
    assert "cpu_model" not in sampler.describe()
    assert sampler.gaps["cpu_model"] == "not shown by this kernel"


def test_an_arm_processor_is_named_by_its_numbers():
    """Neoverse V2, as in Grace; its /proc/cpuinfo has no model name and no core ids."""
    block = "processor\t: {}\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n"
    facts = describe_cpu("".join(block.format(number) for number in range(3)))
    assert facts == {
        "cpu_model": "Arm implementer 0x41 part 0xd4f",
        "cpu_threads": 3,
        "cpu_cores": None,
        "cpu_sockets": None,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="compares the two ways on Linux")
def test_the_files_say_what_psutil_says():
    values = NodeSampler().sample()
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    assert values["node/mem_available_bytes"] == pytest.approx(memory.available, rel=0.1)
    assert values["node/mem_shared_bytes"] == pytest.approx(memory.shared, rel=0.2)
    assert values.get("node/swap_used_bytes", 0) == pytest.approx(swap.used, rel=0.1, abs=1 << 24)
    assert NodeSampler().describe()["cpu_threads"] == psutil.cpu_count()
    if "node/fs_used_pct/root" in values:
        assert values["node/fs_used_pct/root"] == pytest.approx(psutil.disk_usage("/").percent, abs=1.0)
    assert NodeSampler().describe()["usable_cores"] <= len(os.sched_getaffinity(0))


def test_without_proc_psutil_answers_under_the_same_names(tmp_path):
    """As on a Mac."""
    sampler = NodeSampler(str(tmp_path))
    first, facts = sampler.sample(), sampler.describe()
    assert first["node/mem_used_bytes"] == pytest.approx(psutil.virtual_memory().used, rel=0.5)
    assert {"host", "cpu_threads", "memory_bytes"} <= set(facts)
    assert sampler.gaps["node/temp_c"] == "shown by Linux only"
    subject = Portable()
    subject.sample(0.0)
    values = subject.sample(1.0)
    for name in values:
        series_of(name)
