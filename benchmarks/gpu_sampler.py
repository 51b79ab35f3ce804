"""What the GPU sampler costs: CPU percent of one core at one sample per second, time per sample, and memory.

Uses this machine's driver if there is one, else the fake driver library of the tests (its calls are nearly free, so
that what is measured then is our own part only). `python benchmarks/gpu_sampler.py [seconds]`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(seconds: int) -> dict[str, float | int | str]:
    before = rss_bytes()
    from trainmeter_core.outside.gpu import GpuSampler

    sampler = GpuSampler()
    opened = rss_bytes()
    calls = []
    cpu, wall = time.process_time(), time.perf_counter()
    for tick in range(1, seconds + 1):
        time.sleep(max(0.0, wall + tick - time.perf_counter()))
        start = time.perf_counter()
        sample = sampler.sample()
        calls.append(time.perf_counter() - start)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    result: dict[str, float | int | str] = {
        "gpus": ", ".join(device.cuda_name for device in sampler.devices) or str(sampler.absent),
        "samples": len(calls),
        "cpu_pct_of_one_core": round(100 * cpu / wall, 3),
        "sample_ms_median": round(1000 * sorted(calls)[len(calls) // 2], 3),
        "sample_ms_max": round(1000 * max(calls), 3),
        "rss_mib": round(rss_bytes() / 2**20, 1),
        "rss_mib_of_sampler": round((opened - before) / 2**20, 1),
        "rss_growth_kib_while_sampling": round((rss_bytes() - opened) / 2**10),
        "failures": sample.failures,
    }
    sampler.close()
    return result


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    if "FAKE_NVML_MACHINE" in os.environ:
        print(json.dumps({"driver": "fake", **measure(seconds)}, indent=1))
        return
    from trainmeter_core.outside.gpu import GpuSampler

    probe = GpuSampler()
    found = probe.devices
    probe.close()
    if found:
        print(json.dumps({"driver": str(found[0].driver_version), **measure(seconds)}, indent=1))
        return
    sys.path.insert(0, str(ROOT))
    from tests.fakes.nvml import fake_nvml

    with tempfile.TemporaryDirectory() as directory:
        env = fake_nvml.environment(fake_nvml.build(Path(directory)), "h200x2")
        subprocess.run([sys.executable, __file__, str(seconds)], env=env, check=True)


if __name__ == "__main__":
    main()
