"""`tm export`: the series of a finished run, whole, in order, and the same each time."""

from __future__ import annotations

import csv
import json

import pytest
from click.testing import CliRunner

from trainmeter_core.cli.export import command
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
    writer = RunWriter.create("train.py", ["python"], started=START, run_id="abc123", budget_steps=24)
    writer.append("process", t=START, rank=0, pid=1, world_size=1, local_rank=0)
    writer.append("hardware", t=START, gpus=[{"name": "X", "uuid": "GPU-1"}], peak_tflops=100.0)
    for at in range(BLOCKS):
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
    return writer.directory


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


def test_an_export_that_fails_leaves_what_was_there(run, place, monkeypatch):
    import trainmeter_core.cli.export as cli

    (place / "out.csv").write_text("before")

    def broken(*_):
        yield from list(rows(run, 0.0))[:2]
        raise OSError("disk full")

    monkeypatch.setattr(cli, "rows", broken)
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
    assert build(open_run(str(place / "logs"))) == json.loads((run / "passport.json").read_text())


def test_what_cannot_be_exported_costs_one_line(place):
    assert export("csv", "nothing").exit_code == 2
    assert CliRunner().invoke(command, ["no-such-format"]).exit_code == 2
