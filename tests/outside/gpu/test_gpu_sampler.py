"""The sampler over time: averages, failures of one reading, GPUs and drivers that go and come back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def test_a_sample_averages_the_whole_interval(play):
    """Tensor activity 20 % for 0.4 s, then 80 % for 0.6 s: 56 %, at 620 W on average."""
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        fake.set(0, gpm_5=20, power=500, clock_buffer=1200, field_74=0)
        fake.advance(0.4)
        fake.set(0, gpm_5=80, power=700, clock_buffer=1800, field_74=100)
        (gpu,) = second(s, 0.6).gpus
        tell(tensor=gpu["tensor_active_pct"], power=gpu["power_w"], clock=gpu["sm_clock_mhz"],
             cap=gpu.throttle_pct["power_cap"])
        """,
    )
    assert seen["tensor"] == pytest.approx(56)
    assert seen["power"] == pytest.approx(620)
    assert seen["clock"] == pytest.approx(1560, abs=60)
    assert seen["cap"] == pytest.approx(60)


def test_a_window_weights_samples_by_their_interval_and_feeds_the_ladder(play):
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        fake.set(0, gpm_5=20)
        first = second(s, 1.0).gpus[0]
        fake.set(0, gpm_5=80)
        last = second(s, 3.0).gpus[0]
        counters = window([first, last])
        tell(tensor=counters.tensor_active_pct, util=counters.driver_util_pct, samples=counters.samples,
             cap=counters.throttle_pct["power_cap"], empty=window([]).sm_active_pct)
        """,
    )
    assert seen["tensor"] == pytest.approx((20 + 3 * 80) / 4)
    assert seen["util"] == pytest.approx(99)
    assert seen["cap"] == pytest.approx(80)
    assert seen["samples"] == 2
    assert seen["empty"]["absent"]


def test_a_value_that_cannot_be_is_absent_and_not_clamped(play):
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        fake.set(0, gpm_5=float("nan"), gpm_2=140, gpm_10=-1, util=130, util_buffer=4000, sm_clock=0, clock_buffer=0, power=0)
        second(s)
        (gpu,) = second(s).gpus
        names = ("tensor_active_pct", "sm_active_pct", "dram_active_pct", "gpu_util_pct", "sm_clock_mhz", "power_w")
        tell(**{name: gpu[name] for name in names}, fine=gpu["fp32_active_pct"])
        """,
    )
    assert seen.pop("fine") == 6.5
    assert all(value["absent"] for value in seen.values()), seen


def test_a_metric_that_the_driver_does_not_know_costs_no_other(play):
    """Even where an unknown id fails the whole call, each metric was probed alone."""
    seen = play(
        "h200x2",
        """
        fake.set(0, gpm_newest=20, gpm_strict=1)
        s = sampler("0")
        second(s)
        (gpu,) = second(s).gpus
        tell(tensor=gpu["tensor_active_pct"], pcie=gpu["pcie_tx_bytes_per_s"], nvlink=gpu["nvlink_rx_bytes_per_s"])
        """,
    )
    assert seen["tensor"] == 46.5
    assert seen["pcie"]["absent"]
    assert seen["nvlink"]["absent"]


def test_a_metric_that_breaks_later_costs_no_other_even_in_that_sample(play):
    """The metrics that worked are asked for together; when that call fails, each is asked alone at once."""
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        before = second(s).gpus[0]
        fake.set(0, gpm_newest=20, gpm_strict=1)
        after = second(s).gpus[0]
        tell(before=before["nvlink_rx_bytes_per_s"], after=after["nvlink_rx_bytes_per_s"], tensor=after["tensor_active_pct"])
        """,
    )
    assert seen["before"] > 0
    assert seen["after"]["absent"]
    assert seen["tensor"] == 46.5


def test_a_passing_failure_costs_one_sample_and_the_next_average_covers_it(play):
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        second(s)
        fake.set(0, gpm_5=10)
        fake.error(0, "nvmlGpmSampleGet", 23)
        fake.error(0, "nvmlDeviceGetTemperature", 10)
        fake.error(0, "nvmlDeviceGetTemperatureV", 10)
        (failed,) = second(s).gpus
        fake.error(0, "nvmlGpmSampleGet", 0)
        fake.error(0, "nvmlDeviceGetTemperature", 0)
        fake.set(0, gpm_5=30)
        (after,) = second(s).gpus
        tell(failed=failed["tensor_active_pct"], after=after["tensor_active_pct"], util=failed["gpu_util_pct"],
             temps=[failed["temp_c"], after["temp_c"]])
        """,
    )
    assert seen["failed"]["absent"]
    assert seen["after"] == pytest.approx(20), "two seconds at 10 and 30"
    assert seen["util"] == 99, "other readings went on"
    assert seen["temps"][0]["absent"]
    assert seen["temps"][1] == 61


def test_what_is_not_supported_is_asked_seldom_but_not_given_up_for_good(play):
    seen = play(
        "h200x2",
        """
        fake.error(0, "nvmlDeviceGetEnforcedPowerLimit", 4)
        s = sampler("0")
        second(s)
        fake.error(0, "nvmlDeviceGetEnforcedPowerLimit", 0)
        limits = [second(s).gpus[0]["power_limit_w"] for _ in range(70)]
        known = [i for i, value in enumerate(limits) if not isinstance(value, Absent)]
        tell(first=known[0], last=limits[-1], before=limits[0])
        """,
    )
    assert seen["before"]["absent"] == "no permission"
    assert 50 <= seen["first"] <= 65
    assert seen["last"] == 700


def test_sampling_faster_than_the_counters_gives_no_made_up_average(play):
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        second(s)
        (soon,) = second(s, 0.02).gpus
        (later,) = second(s, 0.98).gpus
        tell(soon=soon["tensor_active_pct"], later=later["tensor_active_pct"])
        """,
    )
    assert "0.1 s" in seen["soon"]["absent"]
    assert seen["later"] == 46.5


LOST = """
s = sampler()
before = second(s)
fake.error(0, "*", 15)
during = [second(s) for _ in range(5)]
fake.error(0, "*", 0)
after = [second(s) for _ in range(20)]
tell(
    before=before.gpus[0]["tensor_active_pct"],
    lost=[x.gpus[0]["tensor_active_pct"] for x in during],
    caps=[x.gpus[0].throttle_pct["power_cap"] for x in during],
    other=[x.gpus[1]["temp_c"] for x in during],
    back=after[-1].gpus[0]["tensor_active_pct"],
    energy=after[-1].gpus[0]["energy_j"],
    guarded=s.guarded,
    uuids=sorted({g.uuid for x in [before, *during, *after] for g in x.gpus}),
)
"""


def test_a_lost_gpu_is_absent_while_the_others_go_on_and_is_found_again(play):
    seen = play("h200x2", LOST)
    assert seen["before"] == seen["back"] == 46.5
    assert all("lost" in value["absent"] for value in seen["lost"])
    assert all("lost" in value["absent"] for value in seen["caps"]), "no throttling is not what a lost GPU says"
    assert seen["other"] == [31] * 5
    assert seen["energy"] == pytest.approx(26 * 612, rel=0.01), "the counter covers the time in between"
    assert len(seen["uuids"]) == 2
    assert seen["guarded"] == 0


def test_a_driver_that_restarts_is_opened_again_and_energy_starts_from_its_new_zero(play):
    seen = play(
        "h200x2",
        """
        s = sampler(watch_xids=True)
        for _ in range(10):
            before = second(s)
        fake.driver_down(5)
        during = [second(s) for _ in range(5)]
        after = [second(s) for _ in range(20)]
        last = after[-1].gpus[0]
        back = next(i for i, x in enumerate(after) if not isinstance(x.gpus[0]["tensor_active_pct"], Absent))
        s.close()
        tell(
            before=before.gpus[0]["energy_j"],
            lost=[x.gpus[0]["tensor_active_pct"] for x in during[:4]],
            zeros=[v for x in during[:4] for g in x.gpus for v in [*g.values.values(), *g.throttle_pct.values()] if v == 0],
            back=back, tensor=last["tensor_active_pct"], energy=last["energy_j"], guarded=s.guarded,
            open_samples=fake.open_samples, references=fake.references,
        )
        """,
    )
    assert seen["before"] == pytest.approx(6120)
    assert all(value["absent"] for value in seen["lost"])
    assert seen["zeros"] == []
    assert seen["back"] <= 10
    assert seen["tensor"] == 46.5
    assert 6120 < seen["energy"] < 36 * 612, "known joules only, and none counted twice"
    assert seen["guarded"] == 0
    assert seen["open_samples"] == 0
    assert seen["references"] == 0


def test_an_energy_counter_that_starts_again_gives_no_negative_energy(play):
    seen = play(
        "h200x2",
        """
        s = sampler("0")
        a = second(s).gpus[0]["energy_j"]
        fake.advance(0.5)
        fake.reset_counters(0)
        b = second(s, 0.5).gpus[0]["energy_j"]
        c = second(s).gpus[0]["energy_j"]
        tell(energy=[a, b, c])
        """,
    )
    assert seen["energy"] == pytest.approx([612, 1224, 1836])


def test_an_xid_is_told_once_with_its_gpu(play):
    seen = play(
        "h200x2",
        """
        import time
        s = sampler(watch_xids=True)
        fake.xid(1, 79)
        found = []
        until = time.monotonic() + 20
        while not found and time.monotonic() < until:
            time.sleep(0.02)
            found += second(s).xids
        found += second(s).xids
        failures = second(s).failures
        s.close()
        tell(found=[[x.uuid[-2:], x.code] for x in found], why=s.xid_absent, failures=failures)
        """,
    )
    assert seen["found"] == [["02", 79]]
    assert seen["why"]["absent"] == "stopped"


def test_a_driver_without_events_says_so(play):
    seen = play("silent", "s = sampler(watch_xids=True)\ntell(why=s.xid_absent)")
    assert "not supported" in seen["why"]["absent"]


def test_closing_gives_everything_back_and_sampling_opens_it_again(play):
    seen = play(
        "h200x2",
        """
        s = sampler(watch_xids=True)
        second(s)
        s.close()
        s.close()
        closed = [fake.open_samples, fake.references]
        second(s)
        again = second(s).gpus[0]["tensor_active_pct"]
        s.close()
        tell(closed=closed, again=again, end=[fake.open_samples, fake.references])
        """,
    )
    assert seen["closed"] == seen["end"] == [0, 0]
    assert seen["again"] == 46.5


def test_a_driver_that_comes_up_late_is_found(play):
    seen = play(
        "h200x2",
        """
        fake.driver_down(30)
        s = sampler()
        first = second(s)
        for _ in range(120):
            last = second(s)
        tell(first=first.absent, gpus=len(first.gpus), last=last.gpus[0]["tensor_active_pct"], described=len(s.devices))
        """,
    )
    assert "not loaded" in seen["first"]["absent"]
    assert seen["gpus"] == 0
    assert seen["last"] == 46.5
    assert seen["described"] == 2


FAULTS = """
fake.set(0, gpm_9=3, gpm_11=2, field_4=1, field_94=5, field_75=5, field_76=5, event_bits=0xff)
truth = None
s = sampler("0")
truth = dict(second(s).gpus[0].values)
assert not any(isinstance(v, Absent) for v in truth.values())
wrong, zeros, present, absent, broken, energy = [], 0, 0, 0, 0, 0.0
for i in range(10_000):
    if i % 500 == 0:
        fake.faults((0.02, 0.3, 0.8, 0.0)[i // 500 % 4], seed=i + 1)
    seen = second(s)
    broken += seen.absent is not None
    for gpu in seen.gpus:
        for name, value in [*gpu.values.items(), *gpu.throttle_pct.items()]:
            if isinstance(value, Absent):
                absent += 1
                assert value.reason
                continue
            present += 1
            zeros += value == 0
            if name == "energy_j":
                assert value >= 0
                energy = value
            elif name == "sm_clock_mhz":
                assert value in (1740, 1755)
            elif name in ("gpu_util_pct",):
                assert value in (99, 100)
            elif name == "mem_used_bytes":
                assert value in (120_000_000_000, 120_600_000_000)
            elif name in truth and abs(value - truth[name]) > 1e-6 * truth[name]:
                wrong.append([i, name, value])
fake.faults(0.0)
for _ in range(700):
    end = second(s).gpus[0]
s.close()
tell(wrong=wrong[:5], zeros=zeros, present=present, absent=absent, broken=broken, guarded=s.guarded, energy=energy,
     still=[n for n, v in end.values.items() if isinstance(v, Absent)], open_samples=fake.open_samples)
"""


def test_ten_thousand_samples_with_random_driver_errors(play):
    """No exception escapes or needs the outer guard, no absent value becomes 0, no value is another one, all recover."""
    seen = play("h200x2", FAULTS)
    assert seen["guarded"] == 0
    assert seen["wrong"] == []
    assert seen["zeros"] == 0
    assert seen["still"] == []
    assert seen["open_samples"] == 0
    assert seen["present"] > 50_000
    assert seen["absent"] > 50_000
    assert 0.97 * 10_000 * 612 < seen["energy"] < 1.01 * 10_001 * 612


def run_plain(code: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_nvidia_ml_py_the_reason_says_how_to_get_it():
    code = """
import sys
sys.modules["pynvml"] = None
from trainmeter_core.outside.gpu import GpuSampler
s = GpuSampler()
print(s.absent, len(s.sample().gpus), s.guarded)
"""
    assert run_plain(code) == "n/a: nvidia-ml-py is not installed: pip install 'trainmeter[gpu]' 0 0"


def test_a_wrapper_that_fails_in_its_own_way_is_a_reason_too():
    """An nvidia-ml-py whose init raises what is not an NVMLError, and one with half its functions missing."""
    code = """
import sys, types
class NVMLError(Exception): pass
def boom(*args): raise OSError("wrapper")
sys.modules["pynvml"] = types.SimpleNamespace(NVMLError=NVMLError, nvmlInit=boom)
from trainmeter_core.outside.gpu import GpuSampler
print(GpuSampler().absent)
sys.modules["pynvml"] = types.SimpleNamespace(NVMLError=NVMLError, nvmlInit=lambda: None, nvmlShutdown=lambda: None)
s = GpuSampler()
print(s.absent, s.guarded)
"""
    first, second = run_plain(code).splitlines()
    assert first == "n/a: nvmlInit failed: OSError"
    assert second == "n/a: this nvidia-ml-py has no nvmlDeviceGetCount 0"
