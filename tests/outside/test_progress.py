"""The progress line stands on the terminal alone, never in the program's output."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.progress import duration, line_of
from trainmeter_core.series import PREFIX

PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(60):
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.05)
print("the program's own line")
"""


def test_a_line_says_what_is_known_and_leaves_out_the_rest():
    row = {"step": 1234, "progress_pct": 45.04, "tokens_per_s": 12345.0, "mfu_pct": 41.26, "eta_s": 4321.0}
    row = {PREFIX + name: value for name, value in row.items()}
    line = "tm: step 1,234 · 45.0 % · 12.3 K tokens/s · MFU 41.3 % · 1 h 12 min left"
    assert line_of(row) == line
    assert line_of({**row, PREFIX + "eta_plus_minus_s": 130.0}) == line.replace(" left", " ± 2 min 10 s left")
    assert line_of({PREFIX + "step": 3, PREFIX + "samples_per_s": 2.0}) == "tm: step 3 · 2 samples/s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.4, "9 s"), (60, "1 min"), (3599.9, "1 h"), (90061, "1 d 1 h"), (7322, "2 h 2 min")]
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


def test_with_its_output_in_a_file_the_line_is_on_the_terminal_alone(terminal, program, tm, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    log = tmp_path / "train.log"
    words = " ".join([*tm, "--progress", "--budget-steps", "60", program(PROGRAM)])
    shown = terminal(["bash", "-c", f"{words} > {log} 2>&1"])
    shown.until("% · ", seconds=60)
    assert shown.end() == 0
    assert "the program's own line" in log.read_text()
    assert "\x1b" not in log.read_text()
    assert "the program's own line" not in shown.text
    assert shown.text.endswith("\r\x1b[K")


def test_while_the_program_has_the_terminal_there_is_no_line_and_tm_says_why(
    terminal, program, tm, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    shown = terminal([*tm, "--progress", program("print('the program')")])
    assert shown.end() == 0
    assert "no progress line" in shown.text
    assert "\x1b[K" not in shown.text
