"""TensorBoard as a child of tm: found a free port for, waited for without blocking, and ended with it.

Run as a program this is that child: TensorBoard of tm's own environment, which dies when its parent does.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import socket
import subprocess
import sys

_HOST = "127.0.0.1"
FIRST_PORT = 6006
_PORTS = 100
_RELOAD_S = 5
_CONNECT_S = 0.05
# The user's command has ended and waits for this.
_ENDS_WITHIN_S = 1.0
_PR_SET_PDEATHSIG = 1


class Server:
    """TensorBoard on a directory, on loopback; implements `hookspecs.Served`.

    Raises OSError when no process can be started or no port is free.
    """

    def __init__(self, directory: str, port: int, *, keep: bool) -> None:
        self._directory = os.path.abspath(directory)
        self._port = free_port(port)
        self._keep = keep
        self._up = False
        self.url = "http://" + _HOST + ":" + str(self._port) + "/#trainmeter"
        words = [sys.executable, "-m", __name__, "0" if keep else str(os.getpid())]
        words += ["--logdir", self._directory, "--host", _HOST, "--port", str(self._port)]
        words += ["--reload_interval", str(_RELOAD_S)]
        # In a directory of ours, since `-m` would import from the user's; in a session of its own, so that neither
        # Ctrl-C nor the terminal reaches it.
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            words,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def is_up(self) -> bool:
        """True once it answers; returns at once."""
        if not self._up and not self.is_gone():
            with socket.socket() as asked:
                asked.settimeout(_CONNECT_S)
                self._up = asked.connect_ex((_HOST, self._port)) == 0
        return self._up

    def is_gone(self) -> bool:
        """True when it has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, unless it was to be kept."""
        if self._keep:
            # Not ours to wait for any more; Popen would warn of it.
            self._process.returncode = 0
            return
        if self.is_gone():
            return
        self._process.terminate()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(directory: str, port: int, keep: bool) -> Server | None:
    """Start TensorBoard on a directory; None without tensorboard, for a remote directory, or one that is not there."""
    if importlib.util.find_spec("tensorboard") is None or not os.path.isdir(directory):
        return None
    return Server(directory, port, keep=keep)


def free_port(first: int) -> int:
    """Give the first port from this one on that nobody listens on; 0 means TensorBoard's own. Raises OSError."""
    first = first or FIRST_PORT
    for port in range(first, min(first + _PORTS, 1 << 16)):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((_HOST, port))
            except OSError:  # another server's, or a port that is not for everybody
                continue
        return port
    raise OSError("no port is free from " + str(first) + " on")


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that comes (Linux); ends now when it has."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):  # not Linux: it ends when tm closes it
        return
    if os.getppid() != parent:
        sys.exit(0)


def main() -> None:
    """Become TensorBoard; the first word is the process to die with, or 0."""
    parent = int(sys.argv.pop(1))
    if parent:
        die_with(parent)
    from tensorboard.main import run_main

    run_main()


if __name__ == "__main__":
    main()
