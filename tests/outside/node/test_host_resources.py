"""Processors, memory, disks, network, pressure: from the kernel's files to series."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.node.disks import is_disk

GIB = 1 << 30
KINDS = [f"node/cpu_{kind}_pct" for kind in ("user", "system", "iowait", "steal", "idle")]


def stat(total, *cores):
    lines = [f"cpu  {total}", *(f"cpu{number} {line}" for number, line in enumerate(cores)), "procs_blocked 0"]
    return "\n".join(lines) + "\n"


def test_processor_kinds_are_shares_of_the_time_since_the_last_look(machine, two_looks):
    """+20 user, +10 nice, +10 system, +5 irq, +5 softirq, +10 iowait, +10 steal, +30 idle = 100 ticks."""
    values = two_looks(lambda: machine.write("proc/stat", stat("120 10 60 830 60 5 5 10 0 0")))
    assert [values[name] for name in KINDS] == pytest.approx([30, 20, 10, 10, 30])
    assert values["node/cpu_pct"] == pytest.approx(60)


def test_guests_are_not_counted_twice(machine, two_looks):
    """The kernel's guest ticks are part of user already."""
    values = two_looks(lambda: machine.write("proc/stat", stat("150 0 50 850 50 0 0 0 50 0")))
    assert values["node/cpu_user_pct"] == pytest.approx(50)
    assert sum(values[name] for name in KINDS) == pytest.approx(100)


def test_each_core_is_shown(machine, two_looks):
    values = two_looks(lambda: machine.write("proc/stat", stat("200 0 50 900 50", "150 0 25 400 25", "50 0 25 500 25")))
    assert values["node/cpu_core_pct/0"] == pytest.approx(100)
    assert values["node/cpu_core_pct/1"] == pytest.approx(0)


def test_idle_time_that_steps_back_is_no_negative_share(machine, two_looks):
    values = two_looks(lambda: machine.write("proc/stat", stat("200 0 50 800 40 0 0 0 0 0")))
    assert values["node/cpu_user_pct"] == pytest.approx(100)
    assert min(values[name] for name in KINDS) == 0


def test_the_first_look_has_no_rates_and_that_is_no_gap(machine):
    sampler = machine.sampler()
    values = sampler.sample()
    assert "node/cpu_pct" not in values
    assert "node/disk_read_bytes_per_s" not in values
    assert values["node/load_1"] == 1.5
    assert "node/cpu_pct" not in sampler.gaps


def test_load_and_waiting_tasks(machine):
    values = machine.sampler().sample()
    names = ("load_1", "load_5", "load_15", "runnable_tasks", "blocked_tasks")
    assert [values[f"node/{name}"] for name in names] == [1.5, 2.25, 3.0, 4, 3]


def test_memory_that_programs_cannot_have_is_used_and_caches_are_not(machine):
    values = machine.sampler().sample()
    assert values["node/mem_used_bytes"] == 8 * GIB
    assert values["node/mem_used_pct"] == 50
    assert values["node/mem_available_bytes"] == 8 * GIB
    assert values["node/mem_cache_bytes"] == 4 * GIB  # 0.5 buffers + 4 cached + 0.5 slab - 1 shared
    assert values["node/mem_shared_bytes"] == GIB
    assert (values["node/swap_used_bytes"], values["node/swap_used_pct"]) == (GIB // 2, 25)


def test_the_zfs_cache_is_taken_out_of_used(machine):
    machine.write("proc/spl/kstat/zfs/arcstats", f"13 1 0x01 98 26656\nname type data\nhits 4 99\nsize 4 {3 * GIB}\n")
    values = machine.sampler().sample()
    assert values["node/mem_zfs_arc_bytes"] == 3 * GIB
    assert values["node/mem_used_bytes"] == 5 * GIB


def test_a_node_without_swap_has_no_swap_series_and_says_why(machine):
    machine.write(
        "proc/meminfo", (machine.root / "proc/meminfo").read_text().replace("2097152", "0").replace("1572864", "0")
    )
    sampler = machine.sampler()
    assert not [name for name in sampler.sample() if "swap" in name]
    assert sampler.gaps["node/swap_used_pct"] == "no swap on this node"


def test_disk_rates_are_of_physical_disks_only(machine, two_looks):
    def work():
        machine.write(
            "proc/diskstats",
            "   8       0 sda 1100 0 12000 2300 550 0 4400 4400 0 4000 8000\n"
            "   8       1 sda1 1100 0 12000 2300 550 0 4400 4400 0 4000 8000\n"
            " 259       0 nvme0n1 10 0 4080 10 10 0 80 10 0 120 120\n"
            " 253       0 dm-0 10 0 999999 10 10 0 80 10 0 20 20\n",
        )

    values = two_looks(work)
    assert {name.rpartition("/")[2] for name in values if name.startswith("node/disk_busy_pct/")} == {"sda", "nvme0n1"}
    assert values["node/disk_read_bytes_per_s/sda"] == 4000 * 512 / 2
    assert values["node/disk_read_bytes_per_s"] == 8000 * 512 / 2
    assert values["node/disk_write_bytes_per_s"] == 400 * 512 / 2
    assert values["node/disk_busy_pct/sda"] == pytest.approx(50)
    assert values["node/disk_busy_pct"] == pytest.approx(50)  # the busier one
    assert values["node/disk_read_wait_s/sda"] == pytest.approx(0.003)  # 300 ms for 100 reads
    assert values["node/disk_write_wait_s/sda"] == pytest.approx(0.008)
    assert values["node/disk_queue/sda"] == pytest.approx(1.0)
    assert "node/disk_write_wait_s/nvme0n1" not in values  # it wrote nothing: no waiting time


def test_busy_time_beyond_the_clock_is_100_percent(machine, two_looks):
    values = two_looks(
        lambda: machine.write("proc/diskstats", "8 0 sda 1000 0 8000 2000 500 0 4000 4000 0 9000 6000\n")
    )
    assert values["node/disk_busy_pct/sda"] == 100


@pytest.mark.parametrize("name", ["sda", "vdb", "xvda", "nvme10n2", "mmcblk0", "sdaa", "nbd3"])
def test_whole_disks_count(name):
    assert is_disk(name)


@pytest.mark.parametrize(
    "name", ["sda1", "nvme0n1p3", "mmcblk0p1", "loop7", "ram0", "zram0", "dm-12", "md0", "sr0", "xvda1"]
)
def test_parts_and_layers_of_disks_do_not(name):
    assert not is_disk(name)


def more_traffic(machine):
    text = (machine.root / "proc/net/dev").read_text()
    text = text.replace("eth0:1000 10 0 0", "eth0:5000 10 1 3").replace("  ib0: 500 5", "  ib0: 700 5")
    machine.write("proc/net/dev", text.replace("bond0: 1000", "bond0: 5000").replace("docker0: 77", "docker0: 9977"))


def test_network_totals_are_of_real_cards_and_virtual_ones_are_left_out(machine, two_looks):
    values = two_looks(lambda: more_traffic(machine))
    assert values["node/net_recv_bytes_per_s/eth0"] == 2000
    assert values["node/net_recv_bytes_per_s/bond0"] == 2000
    assert values["node/net_recv_bytes_per_s"] == 2000  # not again the bond
    assert values["node/net_lost_per_s"] == 2
    assert not [name for name in values if "docker" in name or "veth" in name or name.endswith("/lo")]


def test_in_a_container_where_no_card_is_real_all_count(machine, two_looks):
    (machine.root / "sys/class/net/eth0/device").rmdir()
    assert two_looks(lambda: more_traffic(machine))["node/net_recv_bytes_per_s"] == 2000 + 2000 + 100


def test_which_interfaces_are_left_out_can_be_changed(machine, two_looks):
    values = two_looks(lambda: more_traffic(machine), skip_interfaces=["eth*", "bond*", "lo"])
    assert values["node/net_recv_bytes_per_s/docker0"] == 4950
    assert "node/net_recv_bytes_per_s/eth0" not in values


def test_a_counter_that_went_backward_gives_no_rate_and_the_next_look_is_right(machine):
    sampler = machine.sampler()
    sampler.sample()
    machine.write("proc/net/dev", "eth0: 10 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0\n")
    machine.now += 1
    assert "node/net_recv_bytes_per_s" not in sampler.sample()
    machine.write("proc/net/dev", "eth0: 110 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0\n")
    machine.now += 1
    assert sampler.sample()["node/net_recv_bytes_per_s"] == 100


def test_no_time_between_two_looks_is_no_infinite_rate(machine, two_looks):
    values = two_looks(lambda: more_traffic(machine), seconds=0.0)
    assert "node/net_recv_bytes_per_s" not in values


def test_pressure_is_the_share_of_the_time_since_the_last_look(machine, two_looks):
    values = two_looks(
        lambda: machine.write(
            "proc/pressure/io",
            "some avg10=0 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=700000\n",
        )
    )
    assert values["node/psi_io_some_pct"] == pytest.approx(25)
    assert values["node/psi_io_full_pct"] == pytest.approx(10)
    assert values["node/psi_memory_full_pct"] == 0
    assert "node/psi_cpu_full_pct" not in values


def test_a_kernel_without_pressure_information_says_so(machine):
    for resource in ("cpu", "io", "memory"):
        machine.remove(f"proc/pressure/{resource}")
    sampler = machine.sampler()
    sampler.sample()
    assert "before Linux 4.20" in sampler.gaps["node/psi_io_full_pct"]
