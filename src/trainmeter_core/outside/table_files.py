"""The files that the rows of a run are written to: CSV, Parquet and OpenMetrics, in parts and as a whole."""

from __future__ import annotations

import csv
import json
import shutil
from typing import TYPE_CHECKING, Any

from trainmeter_core.flops import CONVENTIONS
from trainmeter_core.series import PREFIX, SERIES, series_of

from .newest import PUBLISHED
from .parts import Form

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .replay import Row

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


def _csv_part(rows: list[Row], path: Path, _labels: Mapping[str, str]) -> None:
    names = columns()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for row in rows:
            writer.writerow([row.step, repr(row.time), *(_cell(row.series.get(name)) for name in names)])


def _csv(parts: list[Path], path: Path, _labels: Mapping[str, str]) -> None:
    """Columns step, time (seconds since the epoch) and every series."""
    with path.open("wb") as file:
        file.write(",".join(["step", "time", *columns()]).encode() + b"\n")
        for part in parts:
            with part.open("rb") as lines:
                shutil.copyfileobj(lines, file)


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _parquet_part(rows: list[Row], path: Path, labels: Mapping[str, str]) -> None:
    pa, parquet = _pyarrow()
    names = columns()
    schema = _schema(pa, names, labels)
    arrays: list[Any] = [[row.step for row in rows], [row.time for row in rows]]
    arrays += [[_real(row.series.get(name)) for row in rows] for name in names]
    table = pa.table([pa.array(array, field.type) for array, field in zip(arrays, schema, strict=True)], schema)
    parquet.write_table(table, path)


def _parquet(parts: list[Path], path: Path, labels: Mapping[str, str]) -> None:
    """The columns of the CSV, counts as 64-bit floats, a row group for each part; the labels are file metadata."""
    pa, parquet = _pyarrow()
    schema = _schema(pa, columns(), labels)
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part, schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError(_NO_PARQUET) from None
    return pa, parquet


def _schema(pa: Any, names: list[str], labels: Mapping[str, str]) -> Any:
    fields = [("step", pa.int64()), ("time", pa.float64()), *((name, pa.float64()) for name in names)]
    return pa.schema(fields, metadata=dict(labels))


def _real(value: float | None) -> float | None:
    return None if value is None else float(value)


def _openmetrics_part(rows: list[Row], path: Path, labels: Mapping[str, str]) -> None:
    """A line of [[series, bytes], …], then the samples of each series."""
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    families: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.series.items():
            families.setdefault(name, []).append(f"{metric_name(name)}{{{shown}}} {value!r} {row.time!r}\n")
    samples = {name: "".join(each).encode() for name, each in families.items()}
    with path.open("wb") as file:
        file.write(json.dumps([[name, len(each)] for name, each in samples.items()]).encode() + b"\n")
        file.writelines(samples.values())


def _openmetrics(parts: list[Path], path: Path, _labels: Mapping[str, str]) -> None:
    """Gauges with timestamps, as `promtool tsdb create-blocks-from openmetrics` takes them.

    OpenMetrics wants a family's samples together, so that each family is collected from all parts.
    """
    places: dict[str, list[tuple[Path, int, int]]] = {}
    for part in parts:
        with part.open("rb") as samples:
            listed = json.loads(samples.readline())
            at = samples.tell()
        for name, length in listed:
            places.setdefault(name, []).append((part, at, length))
            at += length
    with path.open("wb") as file:
        for name, each in places.items():
            about = f"# TYPE {metric_name(name)} gauge\n# HELP {metric_name(name)} {_escaped(_meaning(name))}\n"
            file.write(about.encode())
            for part, at, length in each:
                with part.open("rb") as samples:
                    samples.seek(at)
                    file.write(samples.read(length))
        file.write(b"# EOF\n")


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


FORMS: dict[str, Form] = {
    "csv": Form(_csv_part, _csv),
    "parquet": Form(_parquet_part, _parquet),
    "openmetrics": Form(_openmetrics_part, _openmetrics),
}
