"""Every block of the pages is run, or stands with its reason in the one table here; a new block without either fails."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SHELLS, Block, blocks, commands
from trainmeter_core.cli import commands as known
from trainmeter_core.cli import grammar, main, run

# Languages that are no program: an output, a configuration, a query.
NOT_PROGRAMS = {
    "text": "an output or a drawing",
    "yaml": "the scraper's own configuration",
    "promql": "run against a real Prometheus by tests/outside/metrics",
    "toml": "compared with the example's file below",
}

# Commands that no test runs, by what they begin with, and why. Those of tm are parsed all the same.
NOT_RUN = {
    "pip install": "changes an environment; the wheel's tests install it into one of their own",
    "make": "CI is `make test`; the others are steps of it",
    "python benchmarks/": "a benchmark is no test; that the file is there is tested",
    "tm --quiet benchmarks/": "the same",
    "python scripts/gpu_check.py": "needs a GPU; tests/scripts runs it with a fake driver",
    "tm doctor": "run by tests/wheel; takes seconds here, where every tracker is installed",
    "tm view": "waits for Ctrl-C; run by tests/cli",
    "tm attach": "watches a process; run by tests/cli",
    "tm compare": "needs two runs; run by tests/cli",
    "tm selftest -- torchrun": "processes of their own, three times; tests/e2e runs it with trackers",
    "tm enable": "writes into an environment; run by tests/e2e",
    "tm disable": "the same",
    "TRAINMETER=1": "needs such an environment; run by tests/e2e",
    "tm --metrics-port": "a fixed port may be taken; run by tests/outside with a free one",
    "tm examples/four_waits.py": "run by tests/examples, with its options and without",
    "tm -- wandb agent": "asks a server for trials; tests/wandb runs it with a server of its own",
    "tm -- bash": "a script of the reader's; tests/outside runs such loops",
    "tm -- torchrun": "eight processes; tests/e2e runs it with two",
    'eval "$(tm completion': "asks a shell's own Tab key; run by tests/cli",
    ".venv/bin/pytest": "the tests do not run themselves",
    ".venv/bin/coverage": "the same",
    ".venv/bin/pre-commit": "writes into the repository's hooks",
}

CODE = {
    ("flops.md", ">>> "): "run as doctests by tests/flops",
    ("starting.md", "%load_ext"): "IPython is not installed here; what it calls is run below",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Where the pages' commands find a script, a module and a config."""
    place = tmp_path_factory.mktemp("pages")
    (place / "mypackage").mkdir()
    for name in ("train.py", "mypackage/train.py"):
        (place / name).write_text("print('trained')\n")
    (place / "config.json").write_text((ROOT / "tests" / "flops" / "configs" / "llama-2-7b.json").read_text())
    return place


def environment(place: Path, **more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINMETER", "TM"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), env["PATH"]))
    return {**env, "TRAINMETER_HOME": str(place / "home"), "PATH": path, "OMP_NUM_THREADS": "1", **more}


def reason(command: str) -> str | None:
    return next((why for begins, why in NOT_RUN.items() if command.startswith(begins)), None)


def test_every_block_names_its_language_and_every_language_is_dealt_with():
    found = {block.language for block in blocks()}
    assert found <= {*SHELLS, "python", *NOT_PROGRAMS}
    assert set(NOT_PROGRAMS) <= found


def test_every_command_that_is_not_left_out_runs(place):
    """Side by side, in one directory with a script, a module and a config."""
    wanted = [command for command in commands() if reason(command) is None]
    assert len(wanted) > 8
    asked = sorted(wanted, key=lambda command: command.startswith("tm passport"))
    asked.remove("tm passport")
    started = [
        subprocess.Popen(
            ["bash", "-ec", command],
            cwd=place,
            env=environment(place),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in asked
    ]
    said = [process.communicate(timeout=200)[0] for process in started]
    ended = zip(asked, started, said, strict=True)
    assert [(command, text) for command, process, text in ended if process.returncode] == []
    last = subprocess.run(["tm", "passport"], cwd=place, env=environment(place), capture_output=True, text=True)
    assert last.stdout.startswith("# Training passport"), last.stderr


def test_every_line_of_the_table_leaves_something_out():
    assert [begins for begins in NOT_RUN if not any(command.startswith(begins) for command in commands())] == []


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("tm ")])
def test_every_command_of_tm_parses(command, place, monkeypatch):
    """Also those that are not run: a subcommand and an option that the page shows are there."""
    monkeypatch.chdir(place)
    line = grammar.split(shlex.split(command)[1:], run.WITH_VALUE)
    if line.kind == "target" and line.rest[0] in known.COMMANDS:
        module, _, name = known.COMMANDS[line.rest[0]][0].partition(":")
        found = getattr(__import__(module, fromlist=[name]), name)
        words = [word for word in line.rest[1:] if word not in ("RUN", "A", "B")] + ["x"] * line.rest.count("RUN")
        assert found.make_context("tm", words, resilient_parsing=True) is not None
        if not found.context_settings.get(
            "allow_interspersed_args", True
        ):  # what comes after the program is the program's
            words = list(itertools.takewhile(lambda word: word.startswith("--") and word != "--", words))
        known_options = {
            option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known_options
    else:
        assert main._parse(line.options, run.OPTIONS)
        assert line.kind != "nothing" or line.options


def test_the_site_is_built_without_a_warning(tmp_path):
    """Broken links and anchors are warnings, and warnings are errors."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()


def test_links_from_outside_of_the_site_lead_somewhere():
    """Those of the README, of CONTRIBUTING and of the change log; and tests that they name are there."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / page).read_text()
        named = re.findall(r"\]\((?!https?:)([^)#]+)", text) + re.findall(r"(?:src|srcset)=\"([^\"]+)", text)
        named += re.findall(r"\b(?:tests|benchmarks|docs|examples)/[\w./-]*\w", text)
        assert named
        assert [name for name in named if not (ROOT / name).exists()] == [], page


def test_every_file_that_a_command_names_is_there():
    named = [
        word
        for command in commands()
        for word in command.split()
        if re.match(r"(?:\./)?(?:benchmarks|scripts|examples)/", word)
    ]
    assert named
    assert [word for word in named if not (ROOT / word).exists()] == []


def left_out(block: Block) -> bool:
    return any(block.page == page and block.text.startswith(begins) for page, begins in CODE)


class TestPython:
    """The blocks of Python."""

    def test_the_adapter_on_its_page_is_the_example(self):
        example = ROOT / "examples" / "trainmeter-trackio"
        shown = [block.text for block in blocks("python", "toml") if block.page == "adapters.md"]
        assert shown == [(example / "trainmeter_trackio.py").read_text(), (example / "pyproject.toml").read_text()]

    def test_every_other_block_runs(self, place):
        wanted = [block for block in blocks("python") if block.page != "adapters.md" and not left_out(block)]
        assert wanted
        for block in wanted:
            done = subprocess.run(
                [sys.executable, "-c", block.text], cwd=place, env=environment(place), capture_output=True, text=True
            )
            assert (done.returncode, done.stdout) == (0, ""), (block, done.stderr)

    def test_what_load_ext_calls_measures_this_process(self, place):
        code = "import trainmeter_core as t; t.load_ipython_extension(None); t.unload_ipython_extension(None)"
        home = place / "notebook"
        env = environment(place, TRAINMETER_HOME=str(home))
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert len(list(home.glob("runs/*/passport.json"))) == 1

    def test_every_line_of_the_table_leaves_something_out(self):
        found = blocks("python")
        for page, begins in CODE:
            assert any(block.page == page and block.text.startswith(begins) for block in found), page
