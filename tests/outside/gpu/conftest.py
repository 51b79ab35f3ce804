"""Plays a scene on a machine with the fake driver: code that runs in a subprocess and tells what it saw as JSON."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.fakes.nvml import fake_nvml

PRELUDE = """
import json
from fake_nvml import Fake
from trainmeter_core.outside.gpu import GpuSampler, window
from trainmeter_core.readings import Absent

fake = Fake()

def sampler(visible=None, **options):
    options.setdefault("watch_xids", False)
    return GpuSampler(visible, clock=fake.clock, **options)

def second(of, seconds=1.0):
    fake.advance(seconds)
    return of.sample()

def plain(value):
    if isinstance(value, Absent):
        return {"absent": value.reason}
    raise TypeError(type(value))

def tell(**seen):
    seen.update(misuse=fake.misuse)
    print(json.dumps(seen, default=plain))
"""


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    return fake_nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def play(nvml_library):
    """play(machine, code, **environment) -> what the code told; a scene with misuse of the driver fails."""

    def _play(machine: str, code: str, **environment: str) -> dict:
        done = fake_nvml.run(nvml_library, machine, PRELUDE + textwrap.dedent(code), **environment)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen.pop("misuse") == 0, "a real driver might have crashed"
        return seen

    return _play
