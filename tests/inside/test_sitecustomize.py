"""The first file of ours that any Python runs: it gives way to the user's own, and harms no program under any version."""

from __future__ import annotations

import ast
import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trainmeter_core

CORE = Path(trainmeter_core.__file__).parent
SITE = CORE / "inside" / "site"


@pytest.fixture
def python(tmp_path):
    """Runs code in a new interpreter that `tm` would have prepared; the user's own PYTHONPATH is `tmp_path/user`."""
    (tmp_path / "user").mkdir()
    (tmp_path / "spool").mkdir()

    def run(code, *flags, agent=True, interpreter=sys.executable, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINMETER_", "PYTHON", "COVERAGE"))}
        paths = [str(SITE)] * agent + [str(tmp_path / "user")]
        env["PYTHONPATH"] = os.pathsep.join(paths)
        if agent:
            env["TRAINMETER_SPOOL"] = str(tmp_path / "spool")
        env.update(more)
        return subprocess.run([interpreter, *flags, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path)

    return run


def test_the_agent_wakes_and_waits(python):
    told = python(
        "import sys; print('trainmeter_core.inside.bootstrap' in sys.modules, 'trainmeter_core.inside.agent' in sys.modules)"
    )
    assert (told.stdout, told.stderr) == ("True False\n", "")


def test_a_program_that_a_shell_gave_way_to_is_as_old_as_itself(python):
    """The last command of `bash -c 'one; two'` takes the shell's process; what ran before is not its start-up."""
    age = (
        "from time import monotonic\n"
        "from trainmeter_core.inside.identity import _age_of_process, identity_of_process\n"
        "print(_age_of_process() - (monotonic() - identity_of_process().process_start))\n"
    )
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    shell = f"'{sys.executable}' -c '{busy}'; exec '{sys.executable}' -c '{age}'"
    exec_shell = f"import os; os.execv('/bin/sh', ['sh', '-c', {shell!r}])"
    assert float(python(exec_shell).stdout) > 0.25
    assert float(python(age).stdout) < 0.25


def test_our_directory_is_not_on_the_path_and_stays_in_the_environment_for_children(python):
    told = python(
        f"import os, sys; print({str(SITE)!r} in sys.path, os.environ['PYTHONPATH'].split(os.pathsep)[0] == {str(SITE)!r})"
    )
    assert told.stdout == "False True\n"


def test_nothing_of_tms_environment_can_be_imported_because_of_us(python):
    code = "import sys; print([p for p in sys.path])"
    assert python(code).stdout == python(code, agent=False).stdout


def test_the_users_own_sitecustomize_runs_once_and_is_the_one_in_sys_modules(python, tmp_path):
    (tmp_path / "user" / "sitecustomize.py").write_text(
        "import builtins\nbuiltins.ran = getattr(builtins, 'ran', 0) + 1\n"
    )
    told = python("import sys; print(ran, sys.modules['sitecustomize'].__file__, 'trainmeter_core' in sys.modules)")
    assert told.stdout == f"1 {tmp_path / 'user' / 'sitecustomize.py'} True\n"


def test_without_one_of_the_users_the_name_is_ours_and_harmless(python):
    """Some distributions' Pythons have one of their own, which then is the one that we gave way to."""
    asked = "import importlib.util as u; spec = u.find_spec('sitecustomize'); print(spec.origin if spec else '')"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    theirs = subprocess.run([sys.executable, "-c", asked], env=bare, capture_output=True, text=True).stdout.strip()
    told = python("import sitecustomize; print(sitecustomize.__file__)")
    assert told.stdout == f"{theirs or SITE / 'sitecustomize.py'}\n"


@pytest.mark.parametrize(
    "source",
    [
        "raise LookupError('theirs')\n",
        "import a_module_that_is_not_there\n",
        "raise ImportError('theirs')\n",
        "raise ImportError('theirs', name='other')\n",
        "raise KeyboardInterrupt\n",
        "import sys; sys.exit(3)\n",
        "def broken(:\n",
    ],
    ids=["raises", "misses a module", "ImportError", "named ImportError", "interrupted", "exits", "broken"],
)
def test_what_the_users_sitecustomize_raises_behaves_as_without_us(python, source, tmp_path):
    (tmp_path / "user" / "sitecustomize.py").write_text(source)
    ours, bare = python("print('ran')"), python("print('ran')", agent=False)
    assert (ours.returncode, ours.stdout) == (bare.returncode, bare.stdout)
    # Python reports a failing sitecustomize by its last line; its traceback is shown only with -v.
    assert ours.stderr.strip().splitlines()[-1:] == bare.stderr.strip().splitlines()[-1:]


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_where_python_keeps_us_out_the_program_runs(python, flag):
    code = "import sys; print('trainmeter_core' in sys.modules)"
    told = python(code, flag)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "False\n"


@pytest.mark.parametrize("flag", ["-s", "-P", "-u", "-B", "-O", "-W error"])
def test_other_flags_change_nothing(python, flag):
    code = "import sys; print('trainmeter_core' in sys.modules)"
    assert python(code, *flag.split()).stdout == "True\n"
    assert python(code, *flag.split()).stderr == ""


def test_without_a_spool_nothing_of_ours_is_loaded(python):
    told = python("import sys; print('trainmeter_core' in sys.modules)", TRAINMETER_SPOOL="")
    assert told.stdout == "False\n"


def test_a_damaged_installation_is_silent(python, tmp_path):
    broken = tmp_path / "core" / "inside" / "site"
    broken.mkdir(parents=True)
    shutil.copy(SITE / "sitecustomize.py", broken)
    (tmp_path / "core" / "__init__.py").write_text("raise RuntimeError('ours')\n")
    told = python("print('ran')", PYTHONPATH=str(broken))
    assert (told.returncode, told.stdout, told.stderr) == (0, "ran\n", "")


def test_start_up_loads_nothing_heavy(python):
    code = "import sys; print(*sys.modules)"
    ours = set(python(code).stdout.split()) - set(python(code, agent=False).stdout.split())
    assert "trainmeter_core.inside.import_hooks" in ours
    assert not ours & {
        "json",
        "logging",
        "re",
        "subprocess",
        "socket",
        "threading",
        "importlib.util",
        "typing",
        "ctypes",
    }


def interpreters() -> list[str]:
    found = [sys.executable, *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))]
    found += filter(None, (shutil.which(f"python3.{minor}") for minor in range(5, 16)))
    found += filter(None, (shutil.which(name) for name in ("python2", "python2.7", "python3", "pypy3")))
    # A shim chooses another version by the folder it is called in.
    one_each = sorted({os.path.realpath(path): path for path in found if "/shims/" not in path}.values())
    return [path for path in one_each if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]


@pytest.mark.parametrize("interpreter", interpreters())
def test_every_python_runs_a_program_unharmed(python, interpreter):
    code = "import sys; sys.stdout.write('%d.%d %s' % (sys.version_info[0], sys.version_info[1], 'trainmeter_core' in sys.modules)); sys.exit(5)"
    told, bare = python(code, interpreter=interpreter), python(code, interpreter=interpreter, agent=False)
    assert (told.returncode, told.stderr) == (5, bare.stderr)
    version, _, woken = told.stdout.partition(" ")
    assert (woken == "True") is (tuple(map(int, version.split("."))) >= (3, 8))


@pytest.mark.parametrize("interpreter", interpreters())
def test_every_supported_python_can_import_the_agent_and_its_taps(python, interpreter):
    names = sorted(
        "trainmeter_core.inside." + str(path.relative_to(CORE / "inside").with_suffix("")).replace("/", ".")
        for path in (CORE / "inside").rglob("*.py")
        if "site" not in path.parts[-2:] and path.name != "__init__.py"
    )
    code = (
        f"import sys\nif sys.version_info < (3, 8): names = []\nelse: names = {names!r}\n"
        "for name in names:\n    try:\n        __import__(name)\n"
        "    except ImportError as error:\n        if error.name != 'torch': raise\n"  # the rooms that run within torch
    )
    told = python(code, interpreter=interpreter)
    assert (told.returncode, told.stderr) == (0, "")


def test_the_rooms_inside_the_trainer_parse_as_python_3_8():
    rooms = [
        *CORE.glob("*.py"),
        *(path for room in ("flops", "shape_from", "inside", "passport") for path in (CORE / room).rglob("*.py")),
    ]
    assert len(rooms) > 50
    for path in rooms:
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    ast.parse((SITE / "sitecustomize.py").read_text(), feature_version=(3, 4))
