"""What only a GPU can answer, in one go of at most four minutes; writes one JSON file.

    python scripts/gpu_check.py --out gpu_check.json

Each section is tried alone: what cannot be answered here is there with its reason. Needs torch, nvidia-ml-py and an
installed tm. `--device cpu` runs everything at a small size, for a test of the script itself with a fake driver.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainmeter_core.outside.gpu import GpuReadings, GpuSampler, window
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Callable

Told = dict[str, Any]

HERE = Path(__file__).resolve().parent
LOOP = HERE / "gpu_check_loop.py"
_CYCLES, _CYCLES_ACTIVE, _MMA_CYCLES = 248, 249, 250


class Check:
    """The device, the size of the work, and the time that is left."""

    def __init__(self, device: str, size: int, seconds: float, budget_s: float) -> None:
        self.device, self.size, self.seconds = device, size, seconds
        self.end = time.monotonic() + budget_s
        self.sampler = GpuSampler()
        self.sms = self._sms()

    def left(self) -> float:
        return self.end - time.monotonic()

    def _sms(self) -> int:
        if self.device == "cuda":
            return int(torch.cuda.get_device_properties(0).multi_processor_count)
        device = self.sampler.devices[0].device() if self.sampler.devices else Absent("no GPU")
        return 0 if isinstance(device, Absent) or isinstance(device.units, Absent) else device.units

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def busy(self, work: Callable[[], Any], flops: int) -> Told:
        """Do `work` for some seconds; achieved TFLOP/s beside what the counters say over the same time."""
        work()
        self.wait()
        self.sampler.sample()
        readings: list[GpuReadings] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.5):
                readings.extend(gpu for gpu in self.sampler.sample().gpus[:1])

        thread = threading.Thread(target=watch)
        thread.start()
        start, calls = time.perf_counter(), 0
        while time.perf_counter() - start < self.seconds:
            for _ in range(10):
                work()
            calls += 10
            self.wait()
        seconds = time.perf_counter() - start
        stop.set()
        thread.join()
        told: Told = {"achieved_tflops": flops * calls / seconds / 1e12, "calls": calls, "seconds": seconds}
        if readings:
            means = window(readings)
            told |= {name: plain(getattr(means, name)) for name in ("tensor_active_pct", "sm_clock_mhz", "power_w")}
            for name in ("tensor_half_active_pct", "tensor_integer_active_pct", "dram_active_pct"):
                values = [value for value in (reading[name] for reading in readings) if not isinstance(value, Absent)]
                told[name] = statistics.mean(values) if values else plain(readings[-1][name])
        return told


def plain(value: Any) -> Any:
    """A number, or the reason why there is none."""
    return f"n/a: {value.reason}" if isinstance(value, Absent) else value


def machine(check: Check) -> Told:
    """Which GPU, driver and torch this was."""
    told: Told = {"torch": torch.__version__, "python": platform.python_version(), "sms": check.sms}
    if check.sampler.absent is not None:
        return {**told, "absent": check.sampler.absent.reason}
    gpu = check.sampler.devices[0]
    names = ("name", "driver_version", "cuda_version", "max_sm_clock_mhz", "power_limit_w")
    return {**told, **{name: plain(getattr(gpu, name)) for name in names}}


def gemm(check: Check) -> Told:
    """(a) Which clock the tensor cores run at: achieved FLOP/s over those that activity x SMs x rate x SM clock give.

    About 1: the SM clock is theirs. About 0.92 on an H100 or H200 at 1980 MHz: they are held at 1830 MHz.
    """
    n = check.size
    told: Told = {}
    for name, dtype, tf32, rate in (("bf16", torch.bfloat16, False, 4096), ("tf32", torch.float32, True, 2048)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(n, n, device=check.device, dtype=dtype) for _ in range(2))
        one = check.busy(lambda a=a, b=b: a @ b, 2 * n**3)  # type: ignore[misc]
        activity, clock = one.get("tensor_active_pct"), one.get("sm_clock_mhz")
        if isinstance(activity, float) and isinstance(clock, float) and check.sms:
            one["observed_tflops"] = activity / 100 * check.sms * rate * clock * 1e6 / 1e12
            one["achieved_over_observed"] = one["achieved_tflops"] / one["observed_tflops"]
        told[name] = one
    torch.backends.cuda.matmul.allow_tf32 = False
    return told


def fp8(check: Check) -> Told:
    """(c) Whether fp8 counts as half-precision tensor activity (id 7) or only as any (id 5)."""
    if check.device != "cuda":
        return {"skipped": "fp8 matmul needs a GPU"}
    n = check.size
    a = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    told = check.busy(lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16), 2 * n**3)  # noqa: SLF001 - torch has no public door to it
    half, whole = told.get("tensor_half_active_pct"), told.get("tensor_active_pct")
    if isinstance(half, float) and isinstance(whole, float) and whole:
        told["half_over_any"] = half / whole
    return told


def cumulative(check: Check) -> Told:
    """(b) What ids 248 to 250 count: their rate per second beside SM clock x SMs."""
    import pynvml

    most = getattr(pynvml, "NVML_GPM_METRIC_MAX", 0)
    if most <= _MMA_CYCLES:
        return {"skipped": f"this nvidia-ml-py knows ids below {most}"}
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    n = check.size
    a = torch.randn(n, n, device=check.device, dtype=torch.bfloat16)
    pynvml.nvmlGpmSampleGet(handle, samples[0])
    start = time.perf_counter()
    while time.perf_counter() - start < check.seconds:
        a @ a
        check.wait()
    pynvml.nvmlGpmSampleGet(handle, samples[1])
    seconds = time.perf_counter() - start
    clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    told: Told = {"seconds": seconds, "sm_clock_mhz": clock}
    for metric in (_CYCLES, _CYCLES_ACTIVE, _MMA_CYCLES):
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = samples
        asked.metrics[0].metricId = metric
        try:
            pynvml.nvmlGpmMetricsGet(asked)
        except pynvml.NVMLError as error:
            told[str(metric)] = f"n/a: {error}"
            continue
        if asked.metrics[0].nvmlReturn:
            told[str(metric)] = f"n/a: driver error {asked.metrics[0].nvmlReturn}"
            continue
        value = asked.metrics[0].value
        told[str(metric)] = {"value": value, "per_s_over_clock": value / seconds / clock / 1e6}
        if check.sms:
            told[str(metric)]["per_s_over_clock_and_sms"] = value / seconds / clock / 1e6 / check.sms
    for sample in samples:
        pynvml.nvmlGpmSampleFree(sample)
    return told


_AS_NOBODY = """
import os, time
import pynvml
from trainmeter_core.outside.gpu import GpuSampler
from trainmeter_core.readings import Absent
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = GpuSampler(watch_xids=False); time.sleep(0.3)
v = s.sample().gpus[0]["tensor_active_pct"] if s.absent is None else s.absent
print(v.reason if isinstance(v, Absent) else "ok")
"""


def unprivileged(check: Check) -> Told:
    """(d) Whether a user without rights gets the profiling counters."""
    del check
    done = subprocess.run([sys.executable, "-c", _AS_NOBODY], capture_output=True, text=True, timeout=60, check=False)
    return {"as": "nobody" if os.geteuid() == 0 else "this user", "answer": (done.stdout or done.stderr).strip()[-300:]}


def beside_ncu(check: Check) -> Told:
    """(e) Whether the counters go on while Nsight Compute profiles."""
    ncu = shutil.which("ncu")
    if ncu is None or check.device != "cuda":
        return {"skipped": "no ncu on this machine" if ncu is None else "needs a GPU"}
    code = (
        "import torch; a = torch.randn(4096, 4096, device='cuda'); [a @ a for _ in range(20)]; torch.cuda.synchronize()"
    )
    command = [ncu, "--metrics", "sm__cycles_active.avg", sys.executable, "-c", code]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    refused = []
    while child.poll() is None and check.left() > 0:
        time.sleep(0.5)
        value = check.sampler.sample().gpus[0]["tensor_active_pct"]
        refused.append(isinstance(value, Absent))
    child.kill()
    return {
        "samples": len(refused),
        "refused": sum(refused),
        "ncu": child.communicate()[0][-300:],
        "rc": child.returncode,
    }


def cost(check: Check) -> Told:
    """(g) What one sample costs: wall time of the call, and processor time per second at one sample a second."""
    times = []
    before = time.process_time()
    for _ in range(30):
        time.sleep(0.11)
        start = time.perf_counter()
        check.sampler.sample()
        times.append(time.perf_counter() - start)
    spent = (time.process_time() - before) / len(times)
    return {"median_ms": 1e3 * statistics.median(times), "worst_ms": 1e3 * max(times), "cpu_pct_at_1_hz": 100 * spent}


def product(check: Check) -> Told:
    """A small GPT bare and under tm: same bits and waits, time per step, MFU beside OFU, counted beside exact FLOPs."""
    small = [] if check.device == "cuda" else ["--batch=2", "--length=32", "--layers=1", "--width=64", "--steps=31"]
    loop = [str(LOOP), "--device", check.device, *small]
    tm = [str(Path(sys.executable).with_name("tm"))]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TRAINMETER_HOME": folder, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        peak = [] if check.device == "cuda" else ["--peak-tflops", "0.01"]
        bare = [_result([sys.executable, *loop], env, check) for _ in range(2)]
        under = [_result([*tm, *peak, *loop], env, check) for _ in range(2)]
        waits = [
            _result([*words, *loop, "--profile"], env, check)["waits"] for words in ([sys.executable], [*tm, *peak])
        ]
        newest = max(Path(folder, "runs").glob("*/passport.json"), key=lambda path: path.stat().st_mtime)
        passport = json.loads(newest.read_text())
    steps = [min(run["step_s"] for run in runs) for runs in (bare, under)]
    exact = (passport["compute"]["flops_per_token"].get("exact") or {}).get("value")
    return {
        "same_bits": len({run["weights"] for run in bare + under}) == 1,
        "bare_repeats_itself": len({run["weights"] for run in bare}) == 1,
        "step_bare_s": steps[0],
        "step_under_tm_s": steps[1],
        "overhead_pct": 100 * (steps[1] / steps[0] - 1),
        "waits_bare": waits[0],
        "waits_under_tm": waits[1],
        "no_wait_of_ours": waits[0] == waits[1],
        "exact_flops_per_token": exact,
        "counted_over_exact": bare[0]["counted_flops_per_token"] / exact if exact else None,
        "mfu_pct": passport["efficiency"]["mfu_pct"],
        "ladder": passport["efficiency"]["ladder"],
        "peak": passport["options"]["peak_source"],
        "verdicts": [verdict["sentence"] for verdict in passport["verdicts"]],
    }


def _result(command: list[str], env: dict[str, str], check: Check) -> Told:
    limit = max(20.0, check.left())
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    if not lines:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    told: Told = json.loads(lines[-1].removeprefix("result "))
    return told


SECTIONS: dict[str, Callable[[Check], Told]] = {
    "machine": machine,
    "sample_cost": cost,
    "gemm": gemm,
    "cumulative_ids": cumulative,
    "fp8": fp8,
    "unprivileged": unprivileged,
    "product": product,
    "beside_ncu": beside_ncu,
}


def main() -> None:
    """Answer every section, and write after each, so that an end by force loses the rest only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--size", type=int, default=8192, help="rows of the square matrices")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each matmul is repeated")
    parser.add_argument("--budget-s", type=float, default=240.0, help="after this no section is begun")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here; --device cpu tests the script itself")
    check = Check(args.device, args.size, args.seconds, args.budget_s)
    told: Told = {"taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "device": args.device, "size": args.size}
    for name, section in SECTIONS.items():
        start = time.monotonic()
        if check.left() <= 0:
            told[name] = {"skipped": "no time left"}
            continue
        try:
            told[name] = section(check)
        except Exception as error:  # noqa: BLE001 - an answer that fails must not cost the others
            told[name] = {"error": f"{type(error).__name__}: {error}"}
        told[name]["took_s"] = time.monotonic() - start
        args.out.write_text(json.dumps(told, indent=1) + "\n")
        print(name, json.dumps(told[name])[:300], flush=True)


if __name__ == "__main__":
    main()
