"""`tm export`: the series of a finished run, whole, in order, and the same each time."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pty
import subprocess
import sys
import tracemalloc

import pytest
from click.testing import CliRunner

from tests.known import known
from trainmeter_core.cli.export import command
from trainmeter_core.outside import parts, replay, table_files
from trainmeter_core.outside.replay import rows
from trainmeter_core.outside.table_files import columns
from trainmeter_core.passport.build import build
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter

DESCRIPTION = {"class": "Toy"}
START = 1_700_000_000.0
BLOCKS = 6


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run():
    """Six blocks of two steps, half a second apart, on one GPU; a reading of node and GPU before each."""
    return written(BLOCKS, "abc123").directory


def written(blocks, run_id):
    """A finished run of so many blocks."""
    writer = RunWriter.create("train.py", ["python"], started=START, run_id=run_id, budget_steps=24)
    writer.append("process", t=START, rank=0, pid=1, world_size=1, local_rank=0)
    writer.append("hardware", t=START, gpus=[{"name": "X", "uuid": "GPU-1"}], peak_tflops=100.0)
    for at in range(blocks):
        t = START + 0.5 * at
        writer.append("node", t=t, readings={"node/cpu_pct": 10.0 + at, "node/unheard_of": 1})
        writer.append("gpu", t=t, gpus={"GPU-1": {"power_w": 300.0 + at}}, seconds=0.5)
        first = 2 * at + 1
        writer.append(
            "steps", t=t + 0.1, rank=0, pid=1, first=first, last=first + 1, n=2, skipped=0, tokens=64, samples=2,
            micro_batches=2, wall_s=0.5, time={"step": 0.4, "data_wait": None, "other": 0.1}, batches=[[1, 32, 0, 2]],
            step_time_s=[0.2, 0.3], startup=at == 0,
        )  # fmt: skip
    writer.append("exit", code=0, signal=None, seconds=3.0)
    writer.write_passport(build(read_run(writer.directory)), "")
    writer.close()
    return writer


def export(*words):
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_step_after_the_first_block_is_in_exactly_one_row(run):
    fine, coarse = list(rows(run, 0.0)), list(rows(run, 1.0))
    assert [row.step for row in fine] == [4, 6, 8, 10, 12]
    assert [row.step for row in coarse] == [4, 8, 12]
    assert [row.series["trainmeter/tokens"] for row in coarse] == [128, 256, 384]
    assert coarse[-1].series["trainmeter/progress_pct"] == 50


def test_a_csv_has_a_column_for_every_series_and_an_empty_cell_for_what_is_not_known(run, place):
    assert export("csv", "--every", "0", "--out", "out.csv").exit_code == 0
    lines = table(place / "out.csv")
    assert list(lines[0]) == ["step", "time", *columns()]
    assert [line["trainmeter/node/cpu_pct"] for line in lines] == ["11.0", "12.0", "13.0", "14.0", "15.0"]
    assert float(lines[0]["trainmeter/gpu/power_w"]) == 301
    assert {line["trainmeter/time/data_wait"] for line in lines} == {""}
    assert {line["trainmeter/mfu_pct"] for line in lines} == {""}


def test_parquet_holds_what_the_csv_holds(run, place):
    parquet = pytest.importorskip("pyarrow.parquet")
    export("csv", "--out", "out.csv")
    assert export("parquet", "--out", "out.parquet").exit_code == 0
    read = parquet.read_table(place / "out.parquet")
    lines = table(place / "out.csv")
    assert read.column_names == list(lines[0])
    assert read.schema.metadata[b"run"] == b"abc123"
    for name in ("step", "time", "trainmeter/tokens_per_s", "trainmeter/mfu_pct"):
        assert read[name].to_pylist() == [float(line[name]) if line[name] else None for line in lines]


def test_openmetrics_keeps_each_family_together_and_ends_as_it_must(run, place):
    assert export("openmetrics", "--every", "0", "--out", "out.txt").exit_code == 0
    text = (place / "out.txt").read_text()
    assert text.endswith("# EOF\n")
    families = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    runs_of_families = [name for at, name in enumerate(families) if at == 0 or families[at - 1] != name]
    assert len(runs_of_families) == len(set(runs_of_families))
    assert f'trainmeter_tokens{{run="abc123",script="train.py"}} 128 {START + 0.6!r}' in text


@pytest.mark.parametrize("name", ["csv", "openmetrics", "parquet"])
def test_repeated_it_gives_the_same_file_and_nothing_beside_it(run, place, name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    export(name, "--out", "out")
    once = (place / "out").read_bytes()
    export(name, "--out", "out")
    assert (place / "out").read_bytes() == once
    assert sorted(path.name for path in place.iterdir()) == ["home", "out"]


FILES = {
    "csv": ("--out", "out"),
    "openmetrics": ("--out", "out"),
    "parquet": ("--out", "out"),
    "tensorboard": ("--directory", "out"),
}
NEEDS = {"parquet": "pyarrow", "tensorboard": "tensorboard"}

# `tm export`, killed by a signal that nothing can catch when it has asked for so many rows; 0 for when it has all.
KILLED = """
import os, sys
from trainmeter_core.cli.export import command
from trainmeter_core.outside import parts, replay
after, parts.ROWS_OF_A_PART = int(sys.argv[1]), 2
rows = replay.rows
def few(*words):
    for number, row in enumerate(rows(*words), 1):
        yield row
        if number == after:
            os.kill(os.getpid(), 9)
put = os.replace
def kill_or_put(what, to):
    if not after and str(what).endswith(("whole", ".partial")):
        os.kill(os.getpid(), 9)
    put(what, to)
replay.rows, os.replace = few, kill_or_put
command(sys.argv[2:])
"""


def content(place):
    """The bytes of everything that was exported; a name begun with a dot is what is still to be gone on with."""
    found = [path for path in place.rglob("*") if "home" not in path.parts and path.is_file()]
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


@pytest.mark.parametrize("form", FILES)
def test_after_a_kill_at_any_row_the_same_command_gives_the_file_of_one_that_was_not_killed(
    run, place, monkeypatch, form
):
    pytest.importorskip(NEEDS.get(form, "csv"))
    words = [form, "--every", "0", *FILES[form]]
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 2)
    (place / "undisturbed").mkdir()
    monkeypatch.chdir(place / "undisturbed")
    export(*words)
    expected = content(place / "undisturbed")
    asked = []
    whole = replay.rows

    def rows(*given):
        asked.append(given[3])
        return whole(*given)

    monkeypatch.setattr(replay, "rows", rows)
    for after in (1, 3, 5, 0):
        folder = place / f"killed-{after}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        killed = subprocess.run([sys.executable, "-c", KILLED, str(after), *words], capture_output=True, text=True)
        assert killed.returncode == -9, killed.stderr
        assert content(folder).keys() != expected.keys(), "no whole file yet"
        assert export(*words).exit_code == 0
        assert content(folder) == expected
    assert asked[0] == 0
    assert asked[-1] > 0, "it was gone on with, not begun anew"
    assert asked == sorted(asked[:3]) + asked[3:]


def test_what_was_left_of_another_export_is_not_gone_on_with(run, place, monkeypatch):
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 2)
    subprocess.run([sys.executable, "-c", KILLED, "5", "csv", "--every", "0", "--out", "out"], capture_output=True)
    [left] = place.glob(".out.*")
    assert list(left.iterdir())
    export("csv", "--every", "1", "--out", "out")
    assert len(table(place / "out")) == 3
    assert not list(place.glob(".out.*"))


@pytest.mark.parametrize("form", ["csv", "openmetrics", "tensorboard"])
def test_memory_does_not_grow_with_the_run(place, monkeypatch, form):
    """A million steps need what a few thousand do. (Parquet's memory is pyarrow's own, which Python does not see.)"""
    pytest.importorskip(NEEDS.get(form, "csv"))
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 50)
    peaks = []
    for count in (100, 200, 2000):  # the first loads what is loaded once
        writer = written(count, f"run{count}")
        tracemalloc.start()
        assert export(form, "--every", "0", *FILES[form], writer.run_id).exit_code == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def test_a_second_export_to_the_same_place_is_refused_while_the_first_goes_on(run, place):
    found = replay.RunRows(run)

    def meanwhile(rows, path, labels):
        with pytest.raises(ValueError, match="another export is writing"):
            parts.write(form, replay.RunRows(run), place / "out", {})
        table_files.FORMS["csv"].part(rows, path, labels)

    form = parts.Form(meanwhile, table_files.FORMS["csv"].join)
    assert parts.write(form, found, place / "out", {}) == 3
    assert len(table(place / "out")) == 3


def test_an_export_that_fails_leaves_what_was_there(run, place, monkeypatch):
    (place / "out.csv").write_text("before")
    whole = replay.rows

    def broken(*given):
        yield from list(whole(*given))[:2]
        raise OSError("disk full")

    monkeypatch.setattr(replay, "rows", broken)
    done = export("csv", "--out", "out.csv")
    assert (done.exit_code, done.stderr) == (2, "tm export: disk full\n")
    assert (place / "out.csv").read_text() == "before"
    assert sorted(path.name for path in place.iterdir()) == ["home", "out.csv"]


def test_an_event_file_is_read_back_as_the_run(run, place):
    pytest.importorskip("tensorboard")
    from trainmeter_tb.read import open_run

    for _ in range(2):
        assert export("tensorboard", "--directory", "logs").exit_code == 0
    assert len(list((place / "logs").iterdir())) == 1
    assert build(known(open_run(str(place / "logs")))) == json.loads((run / "passport.json").read_text())


def test_a_terminal_is_shown_how_far_it_is_and_a_file_is_not(run, place):
    words = [sys.executable, "-m", "trainmeter_core", "export", "csv", "--every", "0", "--out", "out"]
    ours, theirs = pty.openpty()
    done = subprocess.run(words, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other side is closed
        while more := os.read(ours, 4096):
            shown += more
    assert done.returncode == 0
    assert b"exporting" in shown
    assert b"5 rows in out" in shown
    quiet = subprocess.run(words, capture_output=True, text=True)
    assert quiet.stderr == "5 rows in out\n"


def test_what_cannot_be_exported_costs_one_line(place):
    assert export("csv", "nothing").exit_code == 2
    assert CliRunner().invoke(command, ["no-such-format"]).exit_code == 2
