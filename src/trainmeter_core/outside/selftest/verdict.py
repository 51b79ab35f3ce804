"""Compares the outcomes of a command's runs, bare and under tm, thing by thing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .judge import DIFFERS, NOISE, SAME, Row, judge, judge_table, listed, state_of
from .outcome import UNREAD
from .text import judge_text
from .weights import is_weights, tensors_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .outcome import Outcome, Written

_NUMBER = re.compile(r"\d+")


def rows(bare: Sequence[Outcome], measured: Outcome, python: str) -> list[Row]:
    """Judge everything; `python` is the trainer's, which can read its checkpoints."""
    return [
        judge("how it ended", [each.end for each in bare], measured.end, str),
        judge_text("stdout", [each.stdout for each in bare], measured.stdout),
        judge_text("stderr", [each.stderr for each in bare], measured.stderr),
        *_tracker_rows(bare, measured),
        *_file_rows(bare, measured, python),
    ]


def _tracker_rows(bare: Sequence[Outcome], measured: Outcome) -> list[Row]:
    tables = [{data.name: data.content for data in each.trackers} for each in (*bare, measured)]
    names = list(dict.fromkeys(name for table in tables for name in table))
    found = []
    for name in names:
        why = next((table[name][UNREAD] for table in tables if UNREAD in table.get(name, {})), None)
        if why is not None:
            found.append(Row(name, NOISE, f"not compared: {why}"))
            continue
        contents = [table.get(name) for table in tables]
        there = [content is not None for content in contents]
        if not all(there):
            found.append(Row(name, state_of(there[:-1], there[-1]), "only in some of the runs"))
            continue
        known = [content for content in contents if content is not None]
        found.append(judge_table(name, known[:-1], known[-1], "entries"))
    return found


def _file_rows(bare: Sequence[Outcome], measured: Outcome, python: str) -> list[Row]:
    """Files by name and content; of those that not every run has, by what their names are without numbers."""
    runs = [*bare, measured]
    tables = [_own_files(each) for each in runs]
    everywhere = sorted(set.intersection(*(set(table) for table in tables)))
    found: list[Row] = []
    same, noise = 0, []
    for name in everywhere:
        values = [table[name] for table in tables]
        state = state_of(values[:-1], values[-1])
        if state == SAME:
            same += 1
        elif is_weights(name):
            found.append(_weights_row(name, runs, python, state))
        elif state == NOISE:
            noise.append(name)
        else:
            found.append(Row(f"file {name}", DIFFERS, _other(values[0], values[-1])))
    by_shape = [_by_shape(table, everywhere) for table in tables]
    for shape in sorted({shape for each in by_shape for shape in each}):
        files = [each.get(shape, []) for each in by_shape]
        state = state_of([len(each) for each in files[:-1]], len(files[-1]))
        if state == SAME:
            state = state_of([_contents(each) for each in files[:-1]], _contents(files[-1]))
        example = next(each[0][0] for each in files if each)
        if state == DIFFERS:
            found.append(Row(f"file {example}", DIFFERS, _other_many(len(files[0]), len(files[-1]))))
        elif state == NOISE:
            noise.append(example)
        else:
            same += len(files[-1])
    told = f"{same} the same" + (f", {len(noise)} not: {listed(noise)}" if noise else "")
    return [Row("files written", NOISE if noise else SAME, told), *found]


def _own_files(outcome: Outcome) -> dict[str, Written]:
    """The files that no tracker accounts for."""
    places = [place for data in outcome.trackers for place in data.files]
    return {
        name: of
        for name, of in outcome.written.items()
        if not any(name == place or name.startswith(place + "/") for place in places)
    }


def _by_shape(table: Mapping[str, Written], known: Collection[str]) -> dict[str, list[tuple[str, Written]]]:
    shapes: dict[str, list[tuple[str, Written]]] = {}
    for name in sorted(table.keys() - set(known)):
        shapes.setdefault(_NUMBER.sub("0", name), []).append((name, table[name]))
    return shapes


def _contents(files: Sequence[tuple[str, Written]]) -> list[Written]:
    return sorted(of for _, of in files)


def _other(before: Written, after: Written) -> str:
    if before.mode != after.mode:
        return f"{before.mode} bare, {after.mode} under tm"
    return f"other bytes ({before.size:,} bare, {after.size:,} under tm)"


def _other_many(before: int, after: int) -> str:
    return "other bytes" if before == after else f"{before} of this kind bare, {after} under tm"


def _weights_row(name: str, runs: Sequence[Outcome], python: str, state: str) -> Row:
    """Judge a checkpoint of other bytes by its tensors."""
    tables = [tensors_of(each.place / name, python) for each in runs]
    what = f"file {name}"
    if any(table is None for table in tables):
        return Row(what, state, "other bytes, and not a checkpoint that can be read without running its code")
    known = [table for table in tables if table is not None]
    return judge_table(what, known[:-1], known[-1], "tensors and values, in other bytes")
