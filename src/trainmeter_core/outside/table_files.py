"""Writes the rows of a run to one file: CSV, Parquet or OpenMetrics. A file is there whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

from trainmeter_core.flops import CONVENTIONS
from trainmeter_core.series import PREFIX, SERIES, series_of

from .newest import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .replay import Row

_ROWS_AT_ONCE = 10_000
_NO_PARQUET = "parquet needs pyarrow: pip install 'trainmeter[parquet]'"


def columns() -> list[str]:
    """Every series that a row can have, in the registry's order; a value that is not known is an empty cell."""
    names: list[str] = []
    for series in SERIES:
        family, _, variable = series.name.partition("<")
        if not variable:
            names.append(PREFIX + series.name)
        elif family == "mfu/":
            names += [PREFIX + family + convention for convention in CONVENTIONS]
        elif family == "node/":
            names += [PREFIX + name for name in PUBLISHED]
    return names


def write_csv(rows: Iterable[Row], out: Path, _labels: dict[str, str]) -> int:
    """Write columns step, time (seconds since the epoch) and every series; give the number of rows."""
    names = columns()
    count = 0
    with _whole(out) as path, open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "time", *names])
        for row in rows:
            writer.writerow([row.step, repr(row.time), *(_cell(row.series.get(name)) for name in names)])
            count += 1
    return count


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def write_parquet(rows: Iterable[Row], out: Path, labels: dict[str, str]) -> int:
    """Write the columns of the CSV, counts as 64-bit floats, in row groups; the labels are file metadata.

    Raises ValueError without pyarrow.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError(_NO_PARQUET) from None
    names = columns()
    fields = [("step", pa.int64()), ("time", pa.float64()), *((name, pa.float64()) for name in names)]
    schema = pa.schema(fields, metadata=dict(labels))
    count = 0
    with _whole(out) as path, parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(rows):
            arrays: list[Any] = [[row.step for row in batch], [row.time for row in batch]]
            arrays += [[_real(row.series.get(name)) for row in batch] for name in names]
            table = pa.table([pa.array(array, kind) for array, (_, kind) in zip(arrays, fields, strict=True)], schema)
            writer.write_table(table)
            count += len(batch)
    return count


def _real(value: float | None) -> float | None:
    return None if value is None else float(value)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def write_openmetrics(rows: Iterable[Row], out: Path, labels: dict[str, str]) -> int:
    """Write gauges with timestamps, as `promtool tsdb create-blocks-from openmetrics` takes them.

    OpenMetrics wants a family's samples together, so each family goes to a file of its own first.
    """
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    count = 0
    with ExitStack() as stack:
        families: dict[str, IO[str]] = {}
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=out.parent))
        for row in rows:
            for name, value in row.series.items():
                if name not in families:
                    path = os.path.join(folder, str(len(families)))
                    families[name] = stack.enter_context(open(path, "w+", encoding="utf-8"))
                families[name].write(f"{metric_name(name)}{{{shown}}} {value!r} {row.time!r}\n")
            count += 1
        path = stack.enter_context(_whole(out))
        with open(path, "w", encoding="utf-8") as file:
            for name, samples in families.items():
                file.write(f"# TYPE {metric_name(name)} gauge\n# HELP {metric_name(name)} {_escaped(_meaning(name))}\n")
                samples.seek(0)
                while text := samples.read(1 << 20):
                    file.write(text)
            file.write("# EOF\n")
    return count


def metric_name(name: str) -> str:
    """A series as Prometheus names it: trainmeter_time_data_wait."""
    return "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in name)


def _meaning(name: str) -> str:
    try:
        series = series_of(name)
    except KeyError:  # a reading that is no published series
        return name
    return f"{series.meaning} ({series.unit})"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def _whole(out: Path) -> Iterator[str]:
    """A path beside `out` that becomes it at the end; nothing is left of one that failed or was interrupted."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        yield str(temporary)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


WRITERS: dict[str, Callable[[Iterable[Row], Path, dict[str, str]], int]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "openmetrics": write_openmetrics,
}
