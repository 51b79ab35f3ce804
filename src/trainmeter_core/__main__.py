"""`python -m trainmeter_core` is `tm`."""

from __future__ import annotations

import os

from trainmeter_core.cli.entry import main

if __name__ == "__main__":
    # The working directory, which -m puts first.
    main(os.getcwd())
