"""The one file that `tm enable` puts into an environment, and `tm disable` takes out again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .environment import AGENT_DIRECTORY

PTH_FILE = "trainmeter.pth"
_ASK = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def site_packages(python: str) -> Path:
    """Where the packages of a Python lie. Raises OSError or ValueError when it cannot be asked."""
    asked = subprocess.run(  # noqa: S603 - the Python that the user named
        [python, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    place = Path(asked.stdout.strip() or ".")
    if asked.returncode or not place.is_absolute():
        raise ValueError(f"{python} did not say where its packages lie")
    return place


def line_of(agent_directory: str = AGENT_DIRECTORY, python: str = sys.executable) -> str:
    """The .pth line: does nothing unless TRAINMETER is set or tm started the program, nor when tm is gone.

    It loads our file by its path, so that nothing of tm's environment can be imported because of it.
    """
    file = os.path.join(agent_directory, "enabled.py")
    return (
        "import os; "
        f"p = {file!r}; g = {{}}; "
        "(os.environ.get('TRAINMETER') or os.environ.get('TRAINMETER_SPOOL')) and os.path.exists(p) and "
        "(exec(compile(open(p, 'rb').read(), p, 'exec'), g), "
        f"g['run']({agent_directory!r}, {python!r}))\n"
    )


def enable(python: str) -> Path:
    """Write the file; what was there is replaced. Raises OSError or ValueError."""
    place = site_packages(python) / PTH_FILE
    temporary = place.with_name(f".{PTH_FILE}.{os.getpid()}")
    temporary.write_text(line_of(), encoding="utf-8")
    temporary.replace(place)
    return place


def disable(python: str) -> Path | None:
    """Take the file out; None when there was none. Raises OSError or ValueError."""
    place = site_packages(python) / PTH_FILE
    try:
        place.unlink()
    except FileNotFoundError:
        return None
    return place
