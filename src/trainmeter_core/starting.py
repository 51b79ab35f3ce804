"""`start` and `stop`: for programs that `tm` cannot be put in front of, such as notebooks and managed jobs.

The same agent and the same outside process as under `tm`; here the program starts that process, and it ends with it.
"""

from __future__ import annotations

import json
import os
import sys

MYPY = False
if MYPY:
    import subprocess  # noqa: TC003 - loaded by the one function that needs it
    from typing import Any

_OFF = ("0", "off", "false", "no")
_STARTS_WITHIN_S = 30.0
_ENDS_WITHIN_S = 30.0
_FIRST_RANK_WITHIN_S = 20.0
_WATCH = """import sys
sys.path[:] = [entry for entry in sys.path if entry]
from trainmeter_core.outside.beside import main
main(sys.argv[1:])
"""


class _Beside:
    """The process that watches this one: it ends when its standard input does."""

    def __init__(self, process: subprocess.Popen[str] | None, before: dict[str, str | None], word: str | None) -> None:
        self.process = process
        """None on a rank that joined the one that the first rank of the node started."""
        self.before = before
        """The variables that were set, as they were."""
        self.word = word
        """The file that told the other ranks of it."""
        self.pid = os.getpid()


_beside: _Beside | None = None


def start(python: str = "", **options: Any) -> str | None:
    """Measure this process from now on; give the run directory, or None where nothing was started.

    Nothing happens under `tm` or after an earlier start (the run directory is given), and with ``TM=0``. Of the ranks
    of a node the first starts the outside process and the others join it; where it does not come within 20 seconds, or
    the ranks have no launcher in common, these are not measured, and are taken to do what the first one does. Whatever
    fails costs one line on stderr. ``options`` are those of the same names of `tm`; ``python`` is a Python that has
    trainmeter, this one by default.
    """
    if os.environ.get("TRAINMETER_SPOOL"):
        return os.environ.get("TRAINMETER_RUN")
    if os.environ.get("TM", "").lower() in _OFF:
        return None
    try:
        if os.environ.get("LOCAL_RANK", "0") != "0":
            told = _join()
        else:
            told = _start_beside(python or sys.executable, {key: value for key, value in options.items() if value})
        if "problem" in told:
            _say(str(told["problem"]))
            return None
        from .inside import bootstrap

        bootstrap.start()
        return str(told["directory"])
    except Exception as error:  # noqa: BLE001 - the border to the user's program
        _say("not started: " + type(error).__name__ + ": " + str(error))
        return None


def stop() -> None:
    """End what `start` began: the run's last numbers, its passport, and the line that tells of it."""
    global _beside
    beside, _beside = _beside, None
    if beside is None or beside.pid != os.getpid():
        return
    try:
        from . import joining
        from .inside import import_hooks
        from .inside.this_process import end_agent

        import_hooks.remove()
        end_agent()
        for name, value in beside.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        joining.withdraw(beside.word)
        if beside.process is None:
            return
        assert beside.process.stdin is not None
        beside.process.stdin.close()
        beside.process.wait(_ENDS_WITHIN_S)
    except Exception as error:  # noqa: BLE001 - as above
        _say("not ended: " + type(error).__name__ + ": " + str(error))


def start_with_torch(python: str) -> None:
    """Start as soon as this process imports torch, and not in one that never does."""
    from .inside import import_hooks

    def imported(_module: object) -> None:
        start(python)

    import_hooks.install({"torch": imported})


def _start_beside(python: str, options: dict[str, Any]) -> dict[str, Any]:
    import subprocess

    from . import joining

    own = os.environ.get("PYTHONPATH", "")
    # What the program has on its path may shadow what trainmeter needs: it gets its own directory, and no more.
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
    env.pop("TRAINMETER", None)
    process = subprocess.Popen(  # noqa: S603 - this very Python, or the one that tm enable noted
        [python, "-c", _WATCH, str(os.getpid()), json.dumps(options), own],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE if _in_notebook() else None,
        env=env, universal_newlines=True, start_new_session=True,
    )  # fmt: skip
    told = _first_line(process)
    if "variables" not in told:
        process.kill()
        process.communicate()
        return told
    _watched_by(process, told, joining.announce(told, process.pid))
    if process.stderr is not None:
        _pass_on(process.stderr)
    return told


def _join() -> dict[str, Any]:
    """Be measured by the process that the first rank of this node starts."""
    from . import joining

    told = joining.found(_FIRST_RANK_WITHIN_S)
    if told is None:
        return {"problem": "the first rank of this node started nothing that this one can join; it is not measured"}
    _watched_by(None, told, None)
    return told


def _watched_by(process: subprocess.Popen[str] | None, told: dict[str, Any], word: str | None) -> None:
    global _beside  # noqa: PLW0603 - one per process is the point
    import atexit

    before = {name: os.environ.get(name) for name in told["variables"]}
    os.environ.update(told["variables"])
    _beside = _Beside(process, before, word)
    # Before the agent's own, which is registered later and so runs earlier.
    atexit.register(stop)


def _first_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the watcher says when it is ready; waits, but not for ever."""
    import select

    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _STARTS_WITHIN_S)
    line = process.stdout.readline() if ready else ""
    try:
        told = json.loads(line)
    except ValueError:
        told = {"problem": "trainmeter's own process did not start"}
    return told if isinstance(told, dict) else {"problem": line}


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _pass_on(stream: Any) -> None:
    """A notebook shows what Python prints, not what a process writes: print the watcher's lines."""
    import threading

    def read() -> None:
        for line in stream:
            print(line, end="", file=sys.stderr, flush=True)  # noqa: T201 - as above

    threading.Thread(target=read, name="trainmeter", daemon=True).start()


def _say(line: str) -> None:
    if sys.stderr is not None:
        print("trainmeter:", line, file=sys.stderr, flush=True)  # noqa: T201 - there is no other way to tell
