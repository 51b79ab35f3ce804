"""`python -m trainmeter_core` is `tm`."""

from __future__ import annotations

from trainmeter_core.cli.main import main

if __name__ == "__main__":
    main()
