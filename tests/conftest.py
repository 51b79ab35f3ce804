"""Under test, what production swallows is raised; and the suite's runs never touch the user's own state directory."""

from __future__ import annotations

import os
import signal
import tempfile

os.environ["TRAINMETER_STRICT"] = "1"
os.environ.setdefault("TRAINMETER_HOME", tempfile.mkdtemp(prefix="trainmeter-tests-"))

# A suite started in the background or under nohup hands ignored signals on to every program it starts, tm among them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
