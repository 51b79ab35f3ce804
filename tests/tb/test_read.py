"""A run is read back from its event files alone, with the values that were written."""

from __future__ import annotations

import json
import struct
import time

import pytest
from tensorboard.compat.proto import event_pb2

from tests.known import known
from tests.tb import reading
from tests.tb.agent_in_test import LENGTH
from trainmeter_core.passport.build import build
from trainmeter_tb import plugin
from trainmeter_tb.read import find_runs, read_run, scalars
from trainmeter_tb.records import framed


def train(package, agent, logdir, steps=5, close=True):
    writer = package.SummaryWriter(str(logdir))
    for step in range(steps):
        agent.step()
        writer.add_scalar("train/loss", 5.0 - step, step)
    if close:
        writer.close()
    return writer


def test_every_encoding_of_a_scalar_is_read(tmp_path):
    """Old and new style, double precision, packed bytes, half and bfloat16, integers; and steps of any size."""
    event = event_pb2.Event(step=2**40, wall_time=3.5)
    add = event.summary.value.add
    add(tag="simple", simple_value=0.5)
    for tag, dtype, field, value in [
        ("float", 1, "float_val", 0.5),
        ("double", 2, "double_val", 0.1),
        ("int", 3, "int_val", -7),
        ("long", 9, "int64_val", 2**40),
        ("half", 19, "half_val", 0x3800),
        ("bfloat16", 14, "half_val", 0x3F00),
    ]:
        entry = add(tag=tag)
        entry.tensor.dtype = dtype
        getattr(entry.tensor, field).append(value)
    for tag, dtype, content in [("packed", 1, struct.pack("<f", 0.5)), ("packed double", 2, struct.pack("<d", 0.1))]:
        entry = add(tag=tag)
        entry.tensor.dtype = dtype
        entry.tensor.tensor_content = content
    vector = add(tag="vector")
    vector.tensor.dtype = 1
    vector.tensor.tensor_shape.dim.add(size=2)
    vector.tensor.float_val.extend([1.0, 2.0])
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(framed(event.SerializeToString()))
    assert list(scalars(str(path))) == [
        (3.5, 2**40, "simple", 0.5),
        (3.5, 2**40, "float", 0.5),
        (3.5, 2**40, "double", 0.1),
        (3.5, 2**40, "int", -7.0),
        (3.5, 2**40, "long", 2.0**40),
        (3.5, 2**40, "half", 0.5),
        (3.5, 2**40, "bfloat16", 0.5),
        (3.5, 2**40, "packed", 0.5),
        (3.5, 2**40, "packed double", 0.1),
    ]


@pytest.mark.parametrize("step", [0, 1, 127, 128, 300, 2**31, 2**35, 2**62, -1])
@pytest.mark.parametrize("tag", ["a", "loss/é", "x" * 200])
def test_the_quick_way_reads_what_protobuf_reads(tmp_path, step, tag):
    """Twice the same tag: the second record is taken apart without protobuf."""
    path = tmp_path / "events.out.tfevents.1"
    events = []
    for value in (0.0, 1.5, float("inf"), -2.0):
        event = event_pb2.Event(step=step, wall_time=1.7e9 + value if value < 9 else 0.0)
        event.summary.value.add(tag=tag, simple_value=value)
        events.append(event)
    other = event_pb2.Event(step=step, wall_time=1.0)
    other.summary.value.add(tag=tag + "2", simple_value=9.0)
    events.insert(2, other)
    path.write_bytes(b"".join(framed(event.SerializeToString()) for event in events))
    assert list(scalars(str(path))) == [
        (e.wall_time, e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in events
    ]


def test_a_run_that_was_closed_gives_the_passport_that_was_written(tapped, agent, tmp_path):
    train(tapped, agent, tmp_path)
    record = known(plugin.open_run(str(tmp_path)))
    written = json.loads(reading.strings(tmp_path, "trainmeter/passport_json")[-1][1])
    read = build(record)
    assert read["data"] == written["data"]
    assert read["compute"] == written["compute"]
    assert read["identity"] == written["identity"]
    assert read["losses"]["train/loss"]["last"]["value"]["value"] == 1.0


def test_one_event_file_is_a_run_too(tapped, agent, tmp_path):
    train(tapped, agent, tmp_path)
    (path,) = reading.files(tmp_path)
    assert build(known(plugin.open_run(path)))["data"]["steps"]["value"] == 5


def test_a_killed_run_gives_the_counts_of_its_series_and_no_flops_of_a_part(tapped, agent, tmp_path):
    """Its only passport is of the first row: what came after is known by the series."""
    agent.steps = 30  # so that a float32 cannot hold the tokens
    writer = train(tapped, agent, tmp_path, steps=9, close=False)
    until = time.monotonic() + 10
    while len(reading.rows(tmp_path)) < 9 and time.monotonic() < until:
        writer.flush()  # tensorboardX's leaves what still is in its queue
        time.sleep(0.01)
    passport = build(known(plugin.open_run(str(tmp_path))))
    assert passport["data"]["steps"]["value"] == 39
    assert passport["data"]["tokens"]["value"] == 39 * LENGTH
    assert passport["identity"]["script"] == "train.py"
    assert passport["data"]["samples"] is None
    assert all(value is None for value in passport["compute"]["flops"].values())
    assert passport["ends"]["how"] is None


def test_of_several_runs_one_must_be_named(tapped, agent, tmp_path):
    train(tapped, agent, tmp_path / "a")
    train(tapped, agent, tmp_path / "b")
    with pytest.raises(ValueError, match="several runs; name one: a, b"):
        plugin.open_run(str(tmp_path))
    assert build(known(plugin.open_run(str(tmp_path / "b"))))["data"]["steps"]["value"] == 10


def test_what_is_not_ours_is_told_apart(package, tmp_path):
    assert plugin.open_run(str(tmp_path / "missing")) is None
    (tmp_path / "notes.txt").write_text("x")
    assert plugin.open_run(str(tmp_path)) is None
    writer = package.SummaryWriter(str(tmp_path))
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    with pytest.raises(ValueError, match="none that was written under tm"):
        plugin.open_run(str(tmp_path))


def test_damage_is_passed_over_and_noted(tapped, agent, tmp_path):
    train(tapped, agent, tmp_path, steps=50)
    (path,) = reading.files(tmp_path)
    with open(path, "r+b") as file:
        file.seek(1000)
        file.write(b"\xff" * 8)
    with open(path, "ab") as file:
        file.write(b"\x10\0\0")
    record = known(plugin.open_run(str(tmp_path)))
    assert record.notes.junk_lines == 1
    assert record.notes.torn_tail
    assert build(record)["data"]["steps"]["value"] == 50


@pytest.mark.parametrize("text", ["{", '{"version": 1}', "[]"])
def test_a_passport_that_is_none_is_not_believed(tmp_path, text):
    from trainmeter_tb.events import OWN_PLUGIN, PASSPORT_JSON_TAG, add_row, add_string

    event = event_pb2.Event(step=1, wall_time=1.0)
    add_row(event, {"trainmeter/step": 3.0})
    add_string(event, PASSPORT_JSON_TAG, OWN_PLUGIN, text.encode())
    (tmp_path / "events.out.tfevents.1").write_bytes(framed(event.SerializeToString()))
    assert build(known(plugin.open_run(str(tmp_path))))["data"]["steps"]["value"] == 3


def test_a_resumed_run_is_one_run_of_several_files(tapped, agent, tmp_path):
    for suffix in (".a", ".b"):
        writer = tapped.SummaryWriter(str(tmp_path), filename_suffix=suffix)
        agent.step()
        writer.add_scalar("loss", 1.0, agent.steps)
        writer.close()
    (files,) = find_runs(str(tmp_path)).values()
    assert len(files) == 2
    assert read_run(files).series["trainmeter/step"][1] == 2.0
