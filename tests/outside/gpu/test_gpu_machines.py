"""The sampler on each kind of machine, through nvidia-ml-py and a driver library of the real binary interface."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.devices import lookup

ONE_SECOND = """
s = sampler()
seen = second(s)
tell(
    gpus=[dict(g.values) for g in seen.gpus],
    throttle=[dict(g.throttle_pct) for g in seen.gpus],
    names=[d.cuda_name for d in s.devices],
    uuids=[d.uuid for d in s.devices],
    memory=[d.mem_total_bytes for d in s.devices],
    versions=[[d.driver_version, d.cuda_version, d.compute_capability] for d in s.devices],
    sms=[d.multiprocessors for d in s.devices],
    peaks=[d.device() and d.device().peak("fp16").tflops for d in s.devices],
    guarded=s.guarded,
    interval=seen.interval_s,
)
"""


@pytest.fixture(scope="module")
def h200(play):
    return play("h200x2", ONE_SECOND)


def absent(value) -> bool:
    return isinstance(value, dict) and bool(value["absent"])


def test_an_h200_gives_every_rung_and_every_counter(h200):
    seen = h200
    busy, idle = seen["gpus"]
    assert busy["graphics_util_pct"] == 98.5
    assert busy["sm_active_pct"] == 91.5
    assert busy["tensor_active_pct"] == 46.5
    assert busy["dram_active_pct"] == 38.25
    assert busy["sm_occupancy_pct"] == 24.25
    assert busy["fp32_active_pct"] == 6.5
    assert busy["gpu_util_pct"] == 99
    assert busy["sm_clock_mhz"] == 1740, "the mean of the driver's buffer, not the instant 1755"
    assert busy["power_w"] == pytest.approx(612)
    assert busy["energy_j"] == pytest.approx(612)
    assert (busy["temp_c"], busy["mem_temp_c"]) == (61, 74)
    assert (busy["mem_used_bytes"], busy["mem_total_bytes"]) == (120_000_000_000, 150_754_820_096)
    assert (busy["ecc_corrected"], busy["ecc_uncorrected"]) == (2, 0)
    assert idle["tensor_active_pct"] == 0, "a measured 0 stays a 0"
    assert seen["interval"] == 1.0
    assert seen["guarded"] == 0
    assert seen["versions"][0] == ["580.82.07", "13.0", "9.0"]
    assert known(lookup(seen["names"][0], seen["memory"][0])).id == "h200-sxm"


def test_nvlink_received_is_id_60_and_pcie_sent_is_id_20(h200):
    busy = h200["gpus"][0]
    mib = 2**20
    assert busy["nvlink_rx_bytes_per_s"] == 3000 * mib
    assert busy["nvlink_tx_bytes_per_s"] == 2900 * mib
    assert busy["pcie_tx_bytes_per_s"] == 100 * mib
    assert busy["pcie_rx_bytes_per_s"] == 200 * mib


def test_throttling_by_time_where_the_driver_counts_it(h200):
    throttle = h200["throttle"][0]
    assert throttle["power_cap"] == pytest.approx(80)
    assert throttle["thermal"] == 0


def test_an_a100_has_no_profiling_counters_and_everything_else(play):
    """The driver has the event reasons under their old name only."""
    seen = play("a100", ONE_SECOND)
    (gpu,) = seen["gpus"]
    assert absent(gpu["sm_active_pct"])
    assert absent(gpu["tensor_active_pct"])
    assert "too old" in gpu["tensor_active_pct"]["absent"]
    assert (gpu["gpu_util_pct"], gpu["sm_clock_mhz"], gpu["mem_temp_c"]) == (96, 1320, 80)
    assert seen["throttle"][0]["power_cap"] == pytest.approx(25)
    assert seen["throttle"][0]["thermal"] == pytest.approx(10)
    assert seen["throttle"][0]["hw_thermal"] == 0


def test_an_l4_without_an_energy_counter_integrates_its_power(play):
    """A missing energy counter recorded as 0 kWh is mlco2/codecarbon#1316."""
    seen = play("l4", ONE_SECOND)
    (gpu,) = seen["gpus"]
    assert gpu["energy_j"] == pytest.approx(71)
    assert "Hopper" in gpu["sm_active_pct"]["absent"]
    assert gpu["mem_used_bytes"] == 9_400_000_000, "memory info 1 counts what the driver reserves"
    assert seen["throttle"][0]["power_cap"] == 100, "from the bit: this driver counts no time"


def test_a_mig_slice_is_read_through_its_own_handle(play):
    seen = play("mig", ONE_SECOND)
    (part,) = seen["gpus"]
    assert seen["uuids"] == ["MIG-11111111-0000-0000-0000-000000000001"]
    assert (part["tensor_active_pct"], part["dram_active_pct"]) == (50, 30)
    assert part["mem_used_bytes"] == 20_000_000_000
    assert part["sm_clock_mhz"] == 1830, "the clock is the whole GPU's"
    for shared in ("power_w", "energy_j", "gpu_util_pct"):
        assert "share" in part[shared]["absent"]
    assert seen["sms"] == [60]
    assert known(lookup(seen["names"][0])).profile == "3g.40gb"
    assert seen["peaks"] == [pytest.approx(989.4 * 60 / 132)]


def test_an_older_driver_wants_a_slices_parent_for_its_counters(play):
    """All three ways to name the slice; its profile comes from its size, for its name does not say."""
    seen = play(
        "mig",
        """
        named = ["MIG-22222222-0000-0000-0000-000000000002", "MIG-2222", "MIG-GPU-eeee0005-0000-0000-0000-000000000005/9/0"]
        found = []
        for visible in named:
            s = sampler(visible)
            (gpu,) = second(s).gpus
            found.append([s.devices[0].cuda_name, gpu["sm_active_pct"], gpu["tensor_active_pct"]])
        tell(found=found)
        """,
    )
    assert seen["found"] == [["NVIDIA H100 80GB HBM3 MIG 1g.10gb", 40, 25]] * 3


def test_unified_memory_is_absent_and_not_zero(play):
    seen = play("gb10", ONE_SECOND)
    (gpu,) = seen["gpus"]
    assert "shared with the processor" in gpu["mem_used_bytes"]["absent"]
    assert absent(gpu["power_limit_w"])
    assert gpu["power_w"] == pytest.approx(62)
    assert absent(seen["memory"][0])


def test_a_gpu_that_supports_nothing_gives_reasons_and_no_zero(play):
    seen = play("silent", ONE_SECOND)
    assert all(absent(value) for value in seen["gpus"][0].values())
    assert all(absent(value) for value in seen["throttle"][0].values())
    assert seen["names"] == ["GRID A10-24Q"]
    assert "--peak-tflops" in seen["peaks"][0]["absent"]


def test_only_the_jobs_gpus_are_sampled(play):
    """A job on one GPU that logs all of the node's is wandb/wandb#538."""
    seen = play(
        "h200x2",
        """
        named = ["0", "1", "GPU-bbbb", "GPU-bbbb0002-0000-0000-0000-000000000002", "1,0"]
        tell(uuids={visible: [gpu.uuid[-2:] for gpu in second(sampler(visible)).gpus] for visible in named})
        """,
    )
    assert list(seen["uuids"].values()) == [["01"], ["02"], ["02"], ["02"], ["02", "01"]]


@pytest.mark.parametrize(("order", "name"), [("FASTEST_FIRST", "4090"), ("PCI_BUS_ID", "T4")])
def test_ordinals_mean_what_cuda_device_order_says(play, order, name):
    (seen,) = play("mixed", ONE_SECOND, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER=order)["names"]
    assert seen.endswith(name)


def test_a_job_that_sees_no_gpu_has_no_samples_and_a_reason(play):
    seen = play(
        "h200x2",
        """
        blind = [sampler(visible) for visible in ("", "-1", "NoDevFiles", "7", "GPU-nobody", "0,0")]
        tell(gpus=[len(second(s).gpus) for s in blind], why=[s.absent for s in blind], guarded=[s.guarded for s in blind])
        """,
    )
    assert seen["gpus"] == seen["guarded"] == [0] * 6
    assert all("CUDA_VISIBLE_DEVICES" in why["absent"] for why in seen["why"])


def test_the_environment_says_which_gpus_unless_the_caller_does(play):
    seen = play(
        "h200x2",
        "tell(environment=[d.uuid[-2:] for d in sampler().devices], caller=[d.uuid[-2:] for d in sampler('0').devices])",
        CUDA_VISIBLE_DEVICES="1",
    )
    assert seen == {"environment": ["02"], "caller": ["01"]}
