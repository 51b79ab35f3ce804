"""A run without a tracker leaves event files that TensorBoard reads."""

from __future__ import annotations

import shlex
import subprocess
import sys

from tests.known import known
from tests.tb import reading
from trainmeter_core.readings import Absent
from trainmeter_tb import plugin


def test_rows_layout_and_passport_are_written(tmp_path):
    directory = tmp_path / "a run's tb"
    writer = known(plugin.open_local(str(directory)))
    writer.write({"trainmeter/tokens": 16777216.0, "trainmeter/mfu_pct": 40.0}, 3, 123.5)
    writer.write({"trainmeter/tokens": 16777218.0, "trainmeter/mfu_pct": float("nan")}, 4, 124.5)
    assert reading.scalars(directory, "trainmeter/tokens")[0] == (3, 16777216.0), "a running run can be watched"
    writer.close("# Training passport")
    writer.close(None)
    assert reading.scalars(directory, "trainmeter/tokens") == [(3, 16777216.0), (4, 16777218.0)]
    assert reading.scalars(directory, "trainmeter/mfu_pct") == [(3, 40.0)]
    assert reading.strings(directory, "trainmeter/passport") == [(4, "# Training passport")]
    assert reading.titles(reading.layouts(directory)[0]) == ["trainmeter"]
    assert shlex.split(writer.command) == ["tensorboard", "--logdir", str(directory)]


def test_without_tensorboard_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    opened = plugin.open_local(str(tmp_path))
    assert isinstance(opened, Absent)
    assert "pip install 'trainmeter[tensorboard]'" in opened.reason


def test_neither_numpy_nor_tensorflow_is_imported(tmp_path):
    """tm's own process stays small."""
    program = (
        "import sys; from trainmeter_tb import plugin; "
        f"w = plugin.open_local({str(tmp_path)!r}); w.write({{'trainmeter/step': 1.0}}, 1, 1.0); w.close('x'); "
        "assert not {'numpy', 'tensorflow', 'torch', 'tensorboard.compat.tensorflow_stub'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_where_gives_the_command_for_the_users_own_directory():
    assert plugin.where("tensorboard", {"logdir": "/a b"}) == "tensorboard --logdir '/a b'"
    assert plugin.where("mlflow", {"logdir": "/a"}) is None


def test_doctor_finds_both_writers_and_that_the_tap_fits():
    checks = {check.name: check for check in plugin.doctor()}
    assert checks["tensorboard"].ok
    assert "the tap fits" in checks["tensorboard"].detail
    assert "the tap fits" in checks["tensorboardX"].detail
