"""The one agent of this process: made at the first tapped import, ended with the process, made anew in a fork."""

from __future__ import annotations

import os

from .agent import Agent
from .guard import site

PROGRAM = os.getpid()
"""The process that imported torch; its forked children have another number, and are the same program."""

_agent: Agent | None = None
_registered = False


def agent_of_this_process() -> Agent:
    """Give this process's agent, made at the first tapped import."""
    global _agent, _registered  # noqa: PLW0603 - one agent per process is the point
    if _agent is None:
        _agent = Agent(os.environ["TRAINMETER_SPOOL"])
    if not _registered:
        import atexit

        _registered = True
        atexit.register(_finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
    return _agent


def end_agent() -> None:
    """Let the agent finish and take all taps out, while the process goes on."""
    global _agent
    agent, _agent = _agent, None
    if agent is not None:
        with site("finish"):
            agent.finish()
        with site("uninstall"):
            agent.uninstall()


def current_agent() -> Agent | None:
    """Give this process's agent if there is one."""
    return _agent


def _finish() -> None:
    if _agent is not None:
        # What is raised at exit would be printed where the program's own output is.
        with site("finish"):
            _agent.finish()


def _after_fork() -> None:
    """A forked child is another process: it is a trainer of its own once it steps an optimizer, else silent."""
    if _agent is not None:
        with site("fork"):
            _agent.start_anew()
            _agent.look_again()
