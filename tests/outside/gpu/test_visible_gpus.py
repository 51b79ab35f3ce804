"""CUDA_VISIBLE_DEVICES as CUDA and torch read it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.known import known
from trainmeter_core.outside.gpu.inventory import Listed
from trainmeter_core.outside.gpu.visible import Selection, select
from trainmeter_core.readings import Absent


def gpu(number: int, name: str = "NVIDIA H200", **changes) -> Listed:
    bus = f"00000000:{number:02x}:00.0"
    values = {"uuid": f"GPU-{number:08x}-aaaa", "name": name, "index": number, "pci_bus_id": bus}
    return Listed(**{**values, **changes})


def part(number: int, parent: Listed) -> Listed:
    return gpu(
        parent.index, uuid=f"MIG-{number:08x}-bbbb", parent_uuid=parent.uuid, gpu_instance=number, compute_instance=0
    )


HUNDRED = [gpu(number) for number in range(100)]
SPLIT = gpu(1, mig_enabled=True)
WITH_MIG = [gpu(0), SPLIT, part(3, SPLIT), part(4, SPLIT)]


def chosen(listed, visible, order=None):
    found = select(listed, visible, order)
    return found if isinstance(found, Absent) else [one.uuid for one in found.gpus]


def torchs(visible: str, monkeypatch) -> list[int]:
    torch = pytest.importorskip("torch")

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    return list(torch.cuda._parse_visible_devices())


WORDS = ["0", "1", "7", "12", "99", " 3", "4 ", "5gpu", "2ampere", "-1", "-7", "x", ""]
ENTRIES = st.lists(st.sampled_from(WORDS), max_size=5)


@settings(deadline=None)  # the first example imports torch
@given(entries=ENTRIES)
def test_ordinals_are_read_as_torch_reads_them(entries):
    visible = ",".join(entries)
    with pytest.MonkeyPatch.context() as monkeypatch:
        theirs = [HUNDRED[number].uuid for number in torchs(visible, monkeypatch)]
    ours = chosen(HUNDRED, visible)
    assert ours == theirs or (isinstance(ours, Absent) and theirs == [])


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        ("2,0", [2, 0]),
        ("0,500,1", [0]),
        ("1gpu2,2ampere", [1, 2]),
        ("GPU-00000003", [3]),
        ("GPU-00000003-aaaa,GPU-00000001", [3, 1]),
        ("GPU-00000003,nonsense,GPU-00000001", [3]),
        ("GPU-00000003,1", [3]),
    ],
)
def test_the_list_keeps_its_order_and_ends_at_the_first_entry_that_names_nothing(visible, numbers):
    assert chosen(HUNDRED, visible) == [HUNDRED[number].uuid for number in numbers]


def test_an_abbreviation_that_fits_several_gpus_names_none():
    assert isinstance(chosen(HUNDRED, "GPU-0000000"), Absent)
    assert isinstance(chosen(HUNDRED, "GPU-"), Absent)


@pytest.mark.parametrize("visible", ["0,0", "GPU-00000003,GPU-00000003-aaaa"])
def test_a_repeated_gpu_leaves_none(visible):
    found = chosen(HUNDRED, visible)
    assert isinstance(found, Absent)
    assert "twice" in found.reason


@pytest.mark.parametrize("visible", ["", " ", "-1", "NoDevFiles", "100", "GPU-ffff"])
def test_no_gpu_is_absent_with_the_variable_in_its_reason(visible):
    found = chosen(HUNDRED, visible)
    assert isinstance(found, Absent)
    assert "CUDA_VISIBLE_DEVICES" in found.reason


def test_without_the_variable_every_gpu_is_the_jobs():
    assert chosen(HUNDRED, None) == [one.uuid for one in HUNDRED]


def test_ordinals_follow_pci_addresses_and_not_the_drivers_list():
    shuffled = [gpu(0, pci_bus_id="00000000:b0:00.0"), gpu(1, pci_bus_id="00000000:0a:00.0")]
    assert chosen(shuffled, "0", "PCI_BUS_ID") == [shuffled[1].uuid]


def test_different_gpus_are_counted_fastest_first_and_that_is_said():
    slow, fast = gpu(0, "Tesla T4", speed=4e6), gpu(1, "NVIDIA H200", speed=3e7)
    found = select([slow, fast], "0")
    assert isinstance(found, Selection)
    assert found.gpus == (fast,)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in known(found.assumed)
    assert select([slow, fast], "0", "PCI_BUS_ID") == Selection((slow,))
    assert known(select([slow, fast], "1,0")).assumed is None, "with every GPU chosen there is nothing to assume"


@pytest.mark.parametrize("visible", ["MIG-00000004-bbbb", "MIG-00000004", "MIG-GPU-00000001-aaaa/4/0"])
def test_a_slice_is_named_by_its_uuid_or_by_parent_and_instances(visible):
    assert chosen(WITH_MIG, visible) == ["MIG-00000004-bbbb"]


def test_several_slices_may_be_the_jobs():
    assert chosen(WITH_MIG, "MIG-00000004,MIG-00000003") == ["MIG-00000004-bbbb", "MIG-00000003-bbbb"]


@pytest.mark.parametrize("visible", ["1", "GPU-00000001"])
def test_a_gpu_with_mig_on_stands_for_its_first_slice(visible):
    assert chosen(WITH_MIG, visible) == ["MIG-00000003-bbbb"]


def test_without_the_variable_cuda_shows_one_slice_and_that_is_said():
    found = known(select(WITH_MIG, None))
    assert [one.uuid for one in found.gpus] == ["MIG-00000003-bbbb"]
    assert "MIG" in known(found.assumed)


def test_mig_without_slices_has_no_gpu():
    assert isinstance(chosen([SPLIT], None), Absent)
