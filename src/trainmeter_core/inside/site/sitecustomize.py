"""Run by Python at start-up through PYTHONPATH: gives way to the user's own sitecustomize, then wakes the agent.

Any Python may run this file, however old: nothing here may fail to parse or raise.
"""

import os
import sys


def _give_way(here):
    """Run the sitecustomize that this file shadows, exactly as Python would have."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # The import system looks the module up again after it ran.
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


def _wake_agent(here):
    if sys.version_info < (3, 8) or not os.environ.get("TRAINMETER_SPOOL"):
        return
    try:
        core = os.path.dirname(os.path.dirname(here))
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import spec_from_file_location

        if "trainmeter_core" not in sys.modules:
            spec = spec_from_file_location(
                "trainmeter_core", os.path.join(core, "__init__.py"), submodule_search_locations=[core]
            )
            module = module_from_spec(spec)
            sys.modules["trainmeter_core"] = module
            spec.loader.exec_module(module)
        from trainmeter_core.inside import bootstrap

        bootstrap.start(python_begins=True)
    except Exception:  # noqa: BLE001, S110 - whatever is wrong with us is not the user's concern
        pass


_here = os.path.dirname(os.path.abspath(__file__))
try:
    _give_way(_here)
finally:
    _wake_agent(_here)
