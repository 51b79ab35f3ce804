"""Calls us right after a named module was executed; loaders, specs and sources stay exactly what they were."""

from __future__ import annotations

import sys

MYPY = False
if MYPY:
    from types import ModuleType
    from typing import Any, Callable

    Hook = Callable[[ModuleType], None]

_waiting: dict[str, Hook] = {}


class PostImportFinder:
    """A meta-path finder that finds nothing itself: it lends a spec from the others and lets its loader report."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is PostImportFinder or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                _report_after_execution(spec)
                return spec
        return None


def _report_after_execution(spec: Any) -> None:
    """Wait for the spec's module to be executed; a spec that was only looked up costs nothing and ends nothing."""
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        hook = _waiting.pop(spec.name, None)
        if hook is not None:
            if not _waiting:
                remove()
            run_hook(hook, module)

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        # A built-in loader whose methods cannot be set: this module goes untapped.
        return


def run_hook(hook: Hook, module: ModuleType) -> None:
    """Run one hook; a failure of ours never reaches the user's import."""
    try:
        hook(module)
    except Exception as error:  # noqa: BLE001 - anything of ours
        try:
            from .guard import note_failure

            note_failure("import of " + getattr(module, "__name__", "?"), error)
        except ImportError:
            # The interpreter is shutting down.
            return


def install(hooks: dict[str, Hook]) -> None:
    """Wait for the modules named; one that is there already is reported at once."""
    for name, hook in hooks.items():
        module = sys.modules.get(name)
        if module is None:
            _waiting[name] = hook
        else:
            run_hook(hook, module)
    if _waiting and PostImportFinder not in sys.meta_path:
        sys.meta_path.insert(0, PostImportFinder)


def remove() -> None:
    """Wait for nothing any more, and leave the import system as it was found."""
    _waiting.clear()
    if PostImportFinder in sys.meta_path:
        sys.meta_path.remove(PostImportFinder)
