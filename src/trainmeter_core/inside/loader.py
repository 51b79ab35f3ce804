"""Loads packages of tm's environment into the trainer one by one, so that nothing else of that environment is seen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

MYPY = False
if MYPY:
    pass

# As in `.._pluggy`, which must not be imported before the copy is there: it would take the user's own, or find none.
PRIVATE_NAME = "_trainmeter_pluggy"


def load_package(name: str, directory: str, alias: str = "") -> ModuleType:
    """Load a package or module from a directory that is not on sys.path; give the one that is loaded already.

    Raises ImportError when it is not there.
    """
    known = alias or name
    if known in sys.modules:
        return sys.modules[known]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec, spec_from_file_location

    found = PathFinder.find_spec(name, [directory])
    if found is None or found.loader is None or found.origin is None:
        raise ImportError("no package " + name + " in " + directory)
    locations = list(found.submodule_search_locations) if found.submodule_search_locations is not None else None
    spec = spec_from_file_location(known, found.origin, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ImportError("cannot load " + name + " from " + directory)
    module = module_from_spec(spec)
    sys.modules[known] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known]
        raise
    return module


def load_pluggy() -> ModuleType:
    """Load tm's pluggy under a private name; the user's own pluggy stays theirs."""
    return load_package("pluggy", os.environ["TRAINMETER_PLUGGY"], alias=PRIVATE_NAME)


def load_plugin(module_name: str, directory: str) -> ModuleType:
    """Import an adapter's plugin module, its package first."""
    load_package(module_name.partition(".")[0], directory)
    __import__(module_name)
    return sys.modules[module_name]
