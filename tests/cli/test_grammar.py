"""Where tm's options end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.cli.grammar import CommandLine, split
from trainmeter_core.cli.run import WITH_VALUE


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", CommandLine([], "nothing", [])),
        ("--quiet", CommandLine(["--quiet"], "nothing", [])),
        ("t.py --quiet", CommandLine([], "target", ["t.py", "--quiet"])),
        ("--quiet t.py", CommandLine(["--quiet"], "target", ["t.py"])),
        ("--run-name t.py u.py", CommandLine(["--run-name", "t.py"], "target", ["u.py"])),
        ("--run-name=x u.py", CommandLine(["--run-name=x"], "target", ["u.py"])),
        ("--run-name -- u.py", CommandLine(["--run-name", "--"], "target", ["u.py"])),
        ("-m mod -m", CommandLine([], "module", ["mod", "-m"])),
        ("-mmod a", CommandLine([], "module", ["mod", "a"])),
        ("--off -- -m x", CommandLine(["--off"], "command", ["-m", "x"])),
        ("- a", CommandLine([], "target", ["-", "a"])),
        ("--", CommandLine([], "nothing", [])),
    ],
)
def test_a_line_splits_where_the_users_part_begins(line, expected):
    assert split(line.split(), WITH_VALUE) == expected


def test_an_empty_word_is_a_target():
    assert split(["", "a"], WITH_VALUE) == CommandLine([], "target", ["", "a"])


@given(st.lists(st.text(max_size=5)))
def test_nothing_of_the_users_is_lost_or_changed(words):
    line = split(["--quiet", "t.py", *words], WITH_VALUE)
    assert line == CommandLine(["--quiet"], "target", ["t.py", *words])
