"""From the spool into the run log: every step once, every rare event once, and whatever is torn costs only itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from trainmeter_core import ring_format as layout
from trainmeter_core.inside.ring import Ring
from trainmeter_core.inside.side_file import SideFile
from trainmeter_core.outside.drain import Drain

SECONDS = (0.5, 0.25, 0.125, 0.0, 0.0, 0.0)


@pytest.fixture
def log():
    return []


@pytest.fixture
def drain(tmp_path, log):
    return Drain(str(tmp_path), log.append)


def ring_of(tmp_path, rank=0, pid=100, world=1) -> Ring:
    return Ring(str(tmp_path / f"r{rank}-{pid}.ring"), layout.Identity(pid, rank, rank, world, 1000.0, 0.0, -2.0))


def write(ring: Ring, number: int, kind=layout.STEP_RECORD, flags=0, tokens=64, samples=4) -> None:
    ring.step(
        kind, flags, 1 if samples else 0, number, 10.0 + number, tokens, samples, 16 if tokens else 0, 0, SECONDS,
        (number, 0, 64 * number, 4 * number, 0),
    )  # fmt: skip


def steps(log) -> list[dict]:
    return [record for record in log if record["type"] == "steps"]


def test_the_steps_of_one_look_are_one_record(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    for number in range(1, 6):
        write(ring, number)
    drain.poll()
    [record] = log
    assert (record["first"], record["last"], record["n"]) == (1, 5, 5)
    assert (record["tokens"], record["samples"], record["micro_batches"]) == (320, 20, 5)
    assert record["batches"] == [[4, 16, 0, 5]]
    assert record["step_time_s"] == [0.5, 0.5]
    assert record["t"] == 1015.0
    assert (record["rank"], record["pid"]) == (0, 100)


def test_the_times_of_a_record_add_up_to_its_wall_time(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    for number in range(1, 6):
        write(ring, number, flags=layout.FLAG_LOADER_SEEN)
    drain.poll()
    assert sum(log[0]["time"].values()) == pytest.approx(log[0]["wall_s"])
    assert log[0]["time"]["other"] == pytest.approx(5 * 0.125)


def test_without_a_data_loader_the_wait_for_data_is_unknown_and_not_zero(tmp_path, drain, log):
    write(ring_of(tmp_path), 1)
    drain.poll()
    assert log[0]["time"]["data_wait"] is None


def test_the_first_step_is_start_up_and_a_record_of_its_own(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    write(ring, 1, flags=layout.FLAG_STARTUP)
    write(ring, 2)
    drain.poll()
    assert [(record["startup"], record["n"], set(record["time"]) == {"startup"}) for record in log] == [
        (True, 1, True),
        (False, 1, False),
    ]


def test_nothing_is_carried_over_twice(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    for number in range(1, 10):
        write(ring, number)
        drain.poll()
        drain.poll()
    assert [record["first"] for record in steps(log)] == list(range(1, 10))


def test_skipped_steps_are_counted_apart(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    write(ring, 0, flags=layout.FLAG_SKIPPED)
    write(ring, 1)
    drain.poll()
    assert (log[0]["n"], log[0]["skipped"], log[0]["tokens"]) == (1, 1, 128)


def test_the_tail_is_time_and_no_step(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    write(ring, 3, kind=layout.TAIL_RECORD, tokens=0, samples=0)
    drain.poll()
    assert (log[0]["n"], log[0]["wall_s"], log[0]["batches"], log[0]["step_time_s"]) == (0, 0.5, [], None)


def test_a_ring_that_is_being_made_is_looked_at_again(tmp_path, drain, log):
    (tmp_path / "r0-100.ring").write_bytes(b"")
    drain.poll()
    assert log == []
    (tmp_path / "r0-100.ring").unlink()
    write(ring_of(tmp_path), 1)
    drain.poll()
    assert len(log) == 1


def test_a_ring_that_may_not_be_read_is_told_once(tmp_path, drain, log, monkeypatch):
    ring_of(tmp_path)

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("trainmeter_core.outside.drain.RingReader", refuse)
    drain.poll()
    drain.poll()
    assert [(record["type"], record["site"]) for record in log] == [("failure", "drain")]


def test_an_outrun_reader_says_what_was_lost(tmp_path, drain, log):
    ring = ring_of(tmp_path)
    drain.poll()
    for number in range(1, layout.CAPACITY + 101):
        write(ring, number)
    drain.poll()
    assert [record["records"] for record in log if record["type"] == "dropped"] == [100]
    assert steps(log)[0]["n"] == layout.CAPACITY
    assert drain.rings["r0-100.ring"].totals().tokens == 64 * (layout.CAPACITY + 100)


def test_a_restarted_rank_is_another_process_of_the_same_rank(tmp_path, drain, log):
    for pid in (100, 200):
        ring = ring_of(tmp_path, rank=1, pid=pid, world=2)
        write(ring, 1, flags=layout.FLAG_STARTUP)
        write(ring, 2)
        drain.poll()
    assert [(record["rank"], record["pid"], record["startup"]) for record in log] == [
        (1, 100, True), (1, 100, False), (1, 200, True), (1, 200, False),
    ]  # fmt: skip


def test_ranks_are_told_apart(tmp_path, drain, log):
    for rank in range(3):
        write(ring_of(tmp_path, rank=rank, pid=100 + rank, world=3), 1)
    drain.poll()
    assert [record["rank"] for record in log] == [0, 1, 2]


def test_events_of_a_side_file_are_carried_over_once_each(tmp_path, drain, log):
    side = SideFile(str(tmp_path / "r0-100.jsonl"))
    side.write("tracker", {"tracker": "tensorboard"})
    drain.poll()
    side.write("span", {"kind": "eval"})
    drain.poll()
    drain.poll()
    assert [record["type"] for record in log] == ["tracker", "span"]


def test_a_line_that_is_not_finished_waits_for_its_end(tmp_path, drain, log):
    path = tmp_path / "r0-100.jsonl"
    path.write_bytes(b'{"type":"a"}\n{"type":')
    drain.poll()
    assert log == [{"type": "a"}]
    with path.open("ab") as file:
        file.write(b'"b"}\n')
    drain.poll()
    assert log == [{"type": "a"}, {"type": "b"}]


def test_torn_and_foreign_lines_cost_only_themselves(tmp_path, drain, log):
    lines = [b'{"type":"a"}', b'{"type":"b"', b"", b"\xff\xfe", b"[1]", b"7", b'{"type":"c"}']
    (tmp_path / "r0-100.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    drain.poll()
    assert log == [{"type": "a"}, {"type": "c"}]


def test_a_spool_that_somebody_removed_ends_nothing(tmp_path, log):
    spool = tmp_path / "spool"
    spool.mkdir()
    ring = ring_of(spool)
    drain = Drain(str(spool), log.append)
    write(ring, 1)
    drain.poll()
    os.unlink(ring.path)
    spool.rmdir()
    write(ring, 2)
    drain.poll()
    assert [record["first"] for record in steps(log)] == [1, 2]
    assert drain.agents() == 1


def test_each_window_is_told_to_the_listener(tmp_path, drain):
    told = []
    drain.on_steps = lambda reader, fields, end: told.append((reader.identity.rank, fields["n"], end))
    write(ring_of(tmp_path), 1)
    drain.poll()
    assert told == [(0, 1, 1011.0)]


def test_what_a_killed_process_wrote_is_all_there(tmp_path, drain, log):
    """The kernel owns the pages: no flush, no exit handler."""
    code = (
        "import os, signal, sys\n"
        "from trainmeter_core import ring_format as layout\n"
        "from trainmeter_core.inside.ring import Ring\n"
        "from trainmeter_core.inside.side_file import SideFile\n"
        f"ring = Ring({str(tmp_path / 'r0-1.ring')!r}, layout.Identity(1, 0, 0, 1, 0.0, 0.0, 0.0))\n"
        f"side = SideFile({str(tmp_path / 'r0-1.jsonl')!r})\n"
        "for number in range(1, 1001):\n"
        f"    ring.step(1, 0, 1, number, 0.0, 64, 4, 16, 0, {SECONDS}, (number, 0, 64 * number, 4 * number, 0))\n"
        "side.write('last', {})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    drain.poll()
    assert sorted(record["type"] for record in log) == ["last", "steps"]
    assert steps(log)[0]["n"] == 1000


class TestSideFile:
    """The writer's end."""

    def test_a_line_is_one_event_with_its_time(self, tmp_path):
        side = SideFile(str(tmp_path / "a.jsonl"))
        side.write("model", {"strange": object, "name": "ü\n"})
        [line] = (tmp_path / "a.jsonl").read_text().splitlines()
        assert json.loads(line)["name"] == "ü\n"
        assert json.loads(line)["t"] > 1e9

    def test_a_huge_event_is_named_and_dropped(self, tmp_path):
        SideFile(str(tmp_path / "a.jsonl")).write("model", {"text": "x" * (5 << 20)})
        told = json.loads((tmp_path / "a.jsonl").read_text())
        assert (told["type"], told["count"]) == ("failure", 1)
        assert told["first"].startswith("an event model of 5242")

    def test_without_a_directory_it_stays_silent_and_knows_why(self, tmp_path):
        side = SideFile(str(tmp_path / "gone" / "a.jsonl"))
        side.write("a", {})
        side.write("b", {})
        assert "No such file" in side.reason

    def test_it_never_follows_a_link(self, tmp_path):
        (tmp_path / "a.jsonl").symlink_to(tmp_path / "elsewhere")
        side = SideFile(str(tmp_path / "a.jsonl"))
        side.write("a", {})
        assert side.reason
        assert not (tmp_path / "elsewhere").exists()
