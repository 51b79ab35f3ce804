"""Under test, what production swallows is raised; and the suite's runs never touch the user's own state directory."""

from __future__ import annotations

import os
import tempfile

os.environ["TRAINMETER_STRICT"] = "1"
os.environ.setdefault("TRAINMETER_HOME", tempfile.mkdtemp(prefix="trainmeter-tests-"))
