"""Run by the .pth file that `tm enable` writes, in every Python of an environment, where the user asked for it.

Under `tm` (also in a program that ignores PYTHONPATH) it wakes the agent; with TRAINMETER=1 the program starts tm's
outside process itself, once it imports torch. Any Python may run this file, however old: nothing here may raise.
"""

import os
import sys


def _core(core):
    """Give trainmeter_core from its own directory, as sitecustomize.py does."""
    if "trainmeter_core" not in sys.modules:
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import spec_from_file_location

        spec = spec_from_file_location(
            "trainmeter_core", os.path.join(core, "__init__.py"), submodule_search_locations=[core]
        )
        module = module_from_spec(spec)
        sys.modules["trainmeter_core"] = module
        spec.loader.exec_module(module)


def run(here, python):
    """Do what the environment asks for."""
    if sys.version_info < (3, 8) or "trainmeter_core.inside.bootstrap" in sys.modules:
        return
    try:
        core = os.path.dirname(os.path.dirname(here))
        if os.environ.get("TRAINMETER_SPOOL"):
            _core(core)
            from trainmeter_core.inside import bootstrap

            bootstrap.start(python_begins=True)
        elif os.environ.get("TRAINMETER", "0").lower() not in ("", "0", "off", "false", "no"):
            _core(core)
            from trainmeter_core.starting import start_with_torch

            start_with_torch(python)
    except Exception:  # noqa: BLE001, S110 - whatever is wrong with us is not the user's concern
        pass
