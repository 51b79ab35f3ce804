"""File systems, /dev/shm, temperatures, fans, InfiniBand."""

from __future__ import annotations

GIB = 1 << 30


def test_local_file_systems_once_each_and_what_users_may_use(machine):
    machine.write(
        "proc/self/mounts",
        "/dev/sda1 / ext4 rw 0 0\n"
        "/dev/sda1 /var/lib/kubelet/x ext4 rw 0 0\n"
        "/dev/md0 /data/big\\040one xfs rw 0 0\n"
        "/dev/sdb1 /etc/hosts ext4 rw 0 0\n"
        "overlay /var/lib/docker/overlay2/1/merged overlay rw 0 0\n"
        "/dev/loop3 /snap/core squashfs ro 0 0\n",
    )
    machine.folder("data/big one")
    machine.folder("var/lib/kubelet/x")
    machine.statvfs_of["/var/lib/kubelet/x"] = machine.statvfs_of["/"]
    machine.write("etc/hosts", "a file that a container engine mounts")
    machine.statvfs_of["/data/big one"] = (1000 * GIB, 100 * GIB, 100 * GIB)
    values = machine.sampler().sample()
    used = {
        name.removeprefix("node/fs_used_bytes/"): value for name, value in values.items() if "fs_used_bytes" in name
    }
    assert used == {"root": 60 * GIB, "data_big_one": 900 * GIB}
    assert values["node/fs_used_pct/root"] == 100 * 60 / 95  # 5 GiB are reserved for root
    assert values["node/fs_used_pct"] == 90


def test_a_network_file_system_is_never_asked(machine):
    """A dead server would hold whoever asks, and with it the end of the run."""
    machine.write("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\nserver:/x /home nfs4 rw 0 0\n")
    machine.folder("home")
    asked = []
    original = machine.statvfs

    def statvfs(path):
        asked.append(path)
        return original(path)

    machine.statvfs = statvfs
    sampler = machine.sampler()
    sampler.sample()
    assert len(asked) == 2
    assert not any("home" in path for path in asked)
    assert sampler.gaps["node/fs_used_bytes/home"] == "nfs4: asking a network file system may hang"


def test_a_containers_root_is_its_overlay(machine):
    machine.write("proc/self/mounts", "overlay / overlay rw 0 0\n")
    assert machine.sampler().sample()["node/fs_used_bytes/root"] == 60 * GIB


def test_shared_memory_has_its_own_limit(machine):
    sampler = machine.sampler()
    values = sampler.sample()
    assert (values["node/shm_used_bytes"], values["node/shm_used_pct"]) == (16 * GIB, 25)
    assert sampler.describe()["shm_bytes"] == 64 * GIB


def test_without_dev_shm_the_series_is_absent_with_the_reason(machine):
    del machine.statvfs_of["/dev/shm"]
    sampler = machine.sampler()
    assert "node/shm_used_pct" not in sampler.sample()
    assert sampler.gaps["node/shm_used_pct"] == "there is no /dev/shm"


def sensors(machine):
    for chip, name, inputs in (
        (
            "hwmon0",
            "coretemp",
            {"temp1": ("Package id 0", 61000), "temp2": ("Core 0", 59000), "temp3": ("Core 1", 60000)},
        ),
        ("hwmon1", "nvme", {"temp1": ("Composite", 41850)}),
        ("hwmon2", "nvme", {"temp1": ("Composite", 39850)}),
        (
            "hwmon3",
            "nct6775",
            {"temp1": (None, 0), "temp2": ("AUXTIN", 250000), "fan1": ("CPU Fan", 1200), "fan2": (None, 0)},
        ),
    ):
        machine.write(f"sys/class/hwmon/{chip}/name", name + "\n")
        for item, (label, value) in inputs.items():
            machine.write(f"sys/class/hwmon/{chip}/{item}_input", f"{value}\n")
            if label:
                machine.write(f"sys/class/hwmon/{chip}/{item}_label", label + "\n")


def test_temperatures_of_chips_without_each_core_and_without_nonsense(machine):
    sensors(machine)
    values = machine.sampler().sample()
    assert {name: value for name, value in values.items() if "temp_c" in name} == {
        "node/temp_c/coretemp_package_id_0": 61.0,
        "node/temp_c/nvme_composite": 41.85,
        "node/temp_c/nvme_composite_2": 39.85,
    }


def test_a_fan_that_stands_still_is_0_rpm(machine):
    sensors(machine)
    values = machine.sampler().sample()
    assert values["node/fan_rpm/nct6775_cpu_fan"] == 1200
    assert values["node/fan_rpm/nct6775_fan2"] == 0


def test_a_sleeping_device_is_not_woken_for_its_temperature(machine):
    sensors(machine)
    machine.write("sys/class/hwmon/hwmon1/device/power/runtime_status", "suspended\n")
    values = machine.sampler().sample()
    assert "node/temp_c/nvme_composite" not in values
    assert "node/temp_c/nvme_composite_2" in values


def test_sensors_are_read_every_ten_seconds(machine):
    sensors(machine)
    sampler = machine.sampler()
    has = []
    for _ in range(21):
        has.append("node/temp_c/nvme_composite" in sampler.sample())
        machine.now += 1
    assert [second for second, there in enumerate(has) if there] == [0, 10, 20]


def test_thermal_zones_stand_in_where_no_chip_is_shown(machine):
    machine.write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
    machine.write("sys/class/thermal/thermal_zone0/temp", "55000\n")
    assert machine.sampler().sample()["node/temp_c/x86_pkg_temp"] == 55


def test_a_machine_without_sensors_says_so(machine):
    sampler = machine.sampler()
    sampler.sample()
    assert sampler.gaps["node/temp_c"] == "no such sensor is shown by this machine"


def infiniband(machine, words, state="4: ACTIVE"):
    port = "sys/class/infiniband/mlx5_0/ports/1"
    machine.write(f"{port}/state", state + "\n")
    machine.write(f"{port}/rate", "400 Gb/sec (4X NDR)\n")
    machine.write(f"{port}/counters/port_rcv_data", f"{words}\n")
    machine.write(f"{port}/counters/port_xmit_data", f"{2 * words}\n")


def test_infiniband_counts_words_of_four_bytes(machine, two_looks):
    infiniband(machine, 1000)
    values = two_looks(lambda: infiniband(machine, 2000))
    assert values["node/ib_recv_bytes_per_s/mlx5_0_1"] == 2000
    assert values["node/ib_recv_bytes_per_s"] == 2000
    assert values["node/ib_sent_bytes_per_s"] == 4000
    assert machine.sampler().describe()["links"] == {"mlx5_0_1": "400 Gb/sec (4X NDR)"}


def test_a_port_that_is_down_is_left_out(machine, two_looks):
    infiniband(machine, 1000, "1: DOWN")
    assert not [name for name in two_looks() if "ib_" in name]
