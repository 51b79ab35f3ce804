"""Which GPUs are the job's follows from what its ranks say, and the peak from those GPUs and the format that ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.known import known
from trainmeter_core.devices import lookup
from trainmeter_core.outside.job_gpus import gpus_named, peak_of
from trainmeter_core.readings import Absent

VISIBLE: list[Any] = [
    SimpleNamespace(uuid="GPU-11111111-a", parent_uuid=None),
    SimpleNamespace(uuid="GPU-22222222-b", parent_uuid=None),
    SimpleNamespace(uuid="MIG-33333333-c", parent_uuid="GPU-44444444-d"),
]
H100, A100 = known(lookup("NVIDIA H100 80GB HBM3")), known(lookup("NVIDIA A100-SXM4-80GB"))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["22222222-b"], [1]),
        (["11111111-a", "22222222-b"], [0, 1]),
        (["cuda:1"], [1]),
        (["cuda"], [0]),
        (["cuda:9"], []),
        (["33333333-c"], [2]),
        (["44444444-d"], [2]),
        (["nobody"], []),
        ([], [0, 1, 2]),
    ],
)
def test_a_rank_names_its_gpus_by_uuid_or_ordinal(names, found):
    assert gpus_named(VISIBLE, names) == [VISIBLE[at] for at in found]


@pytest.mark.parametrize(
    ("description", "peak", "column"),
    [
        ({"dtype": "bfloat16"}, 989.4, "bf16"),
        ({"dtype": "float32"}, 66.9, "fp32"),
        ({"dtype": "float32", "tf32": True}, 494.7, "tf32"),
        ({"dtype": "float32", "autocast": "bfloat16"}, 989.4, "bf16"),
        ({"dtype": "float32", "autocast": "float16", "tf32": True}, 989.4, "fp16"),
    ],
)
def test_the_peak_is_that_of_the_format_that_ran(description, peak, column):
    found = known(peak_of([H100, H100], description, None))
    assert (found.tflops, found.dtype) == (peak, column)


def test_what_the_user_gives_wins():
    found = known(peak_of([H100], {"dtype": "bfloat16"}, 500.0))
    assert (found.tflops, found.source) == (500.0, "user")


@pytest.mark.parametrize(
    ("devices", "description", "reason"),
    [
        ([H100, A100], {"dtype": "bfloat16"}, "the job's GPUs are of different kinds; give --peak-tflops"),
        ([], {"dtype": "bfloat16"}, "which GPU runs this is not known; give --peak-tflops"),
        ([Absent("'X' is not listed")], {"dtype": "bfloat16"}, "'X' is not listed"),
        ([H100], {}, "the model's number format is not known; give --peak-tflops"),
        ([A100], {"dtype": "float8_e4m3fn"}, f"no dense fp8 peak is known for {A100.name}; give --peak-tflops"),
    ],
)
def test_without_a_peak_there_is_a_reason(devices, description, reason):
    assert peak_of(devices, description, None) == Absent(reason)
