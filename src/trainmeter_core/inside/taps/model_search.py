"""Chooses the model among the modules that were called, else among all objects; reads what a model says of itself."""

from __future__ import annotations

import gc
import sys
from typing import Any, NamedTuple

MYPY = False
if MYPY:
    from typing import Dict

    Noted = Dict[int, Any]
    """Modules that were called, by id: each a weak reference under `module`, and the batches that it was trained on."""

# A module that covers this much of what the optimizer trains is the model, not a part of it.
WHOLE = 0.9


class Choice(NamedTuple):
    """The module that the optimizer trains, as it was noted; None where no call of one was seen."""

    noted: Any
    owned: set[int]
    """Ids of what the optimizer trains, or all optimizers do."""
    seen_whole: bool
    """Whether the module has nearly all of that."""
    is_copy: bool
    """Whether these are copies of the module's own parameters."""


def choose(noted: Noted, optimizer: Any, ranks: int) -> Choice:
    """Choose among the modules that were called by what the optimizer trains, which is one of so many ranks' own."""
    parameters = _parameters([optimizer])
    owned = {id(p) for p in parameters}
    best, covered = most_covering(noted, owned)
    if not another_is_bigger(noted, owned, covered):
        return Choice(best, owned, covered >= WHOLE * sum(p.numel() for p in parameters), is_copy=False)
    # The first optimizer to step need not be the one that trains most: a GAN's discriminator goes first.
    everyones = _parameters(live_optimizers())
    owned_by_all = {id(p) for p in everyones}
    best = most_covering(noted, owned_by_all)[0]
    if best is not None:
        return Choice(best, owned_by_all, seen_whole=True, is_copy=False)
    for held in (parameters, everyones):
        best = copied(noted, sum(p.numel() for p in held), ranks)
        if best is not None:
            return Choice(best, {id(p) for p in held}, seen_whole=True, is_copy=True)
    return Choice(None, owned_by_all, seen_whole=False, is_copy=False)


def numel(p: Any) -> int:
    """The elements of a whole parameter, of which DeepSpeed's ZeRO-3 keeps nothing in its place."""
    whole = getattr(p, "ds_numel", None)
    return whole if isinstance(whole, int) else int(p.numel())


def in_parts(module: Any) -> bool:
    """Whether DeepSpeed's ZeRO-3 keeps the module's parameters, whose optimizer then holds copies of some at a time."""
    return any(hasattr(p, "ds_numel") for p in module.parameters())


def _parameters(optimizers: list[Any]) -> list[Any]:
    return [p for each in optimizers for group in each.param_groups for p in group["params"]]


def _trained(noted: Noted) -> list[tuple[Any, Any]]:
    """Give what was trained, with its module."""
    called = [(each, each.module()) for each in noted.values() if each.batches]
    return [(each, module) for each, module in called if module is not None]


def most_covering(noted: Noted, owned: set[int]) -> tuple[Any, int]:
    """Give the noted module with most of the optimizer's parameters, and how many it has."""
    best, most = None, 0
    for each, module in _trained(noted):
        covered = sum(numel(p) for p in module.parameters() if id(p) in owned)
        if covered > most:
            best, most = each, covered
    return best, most


def another_is_bigger(noted: Noted, owned: set[int], covered: int) -> bool:
    """Say whether a module that was trained as well, none of it by this optimizer, has more to train."""
    for _, module in _trained(noted):
        trained = [p for p in module.parameters() if p.requires_grad]
        if sum(map(numel, trained)) > covered and not any(id(p) in owned for p in trained):
            return True
    return False


def copied(noted: Noted, held: int, ranks: int) -> Any:
    """Give the noted module of which the optimizers hold copies: of all of it, or a rank's share of them; or None.

    Master weights, in another precision than the model's. They may be flat and cut anywhere: their number alone tells.
    ZeRO-3 hands its optimizer one group of them after the other; that its module is trained tells.
    """
    best, most = None, 0
    for each, module in _trained(noted):
        parameters = [p for p in module.parameters() if p.requires_grad]
        trained = sum(map(numel, parameters))
        if trained > most and (
            in_parts(module) or (WHOLE * trained <= held * max(ranks, 1) and WHOLE * held <= trained)
        ):
            best, most = each, trained
    return best


def carried(module: Any, trained: set[int]) -> Any:
    """The one child in which all lies that is trained of a module, as in one that adds a loss to a model; or None."""
    children = [child for child in module.children() if any(id(p) in trained for p in child.parameters())]
    if len(children) != 1 or type(children[0]).__module__.startswith("torch.nn."):
        return None
    own = trained.intersection(id(p) for p in module.parameters())
    return children[0] if own <= {id(p) for p in children[0].parameters()} else None


def unused_copies(root: Any, trained: set[int], look: Any) -> set[int]:
    """Ids of modules that a copy of the trained weights consists of, kept inside the root and not called (EMA)."""
    size = sum(numel(p) for p in root.parameters() if id(p) in trained)
    found: set[int] = set()
    for child in root.children() if size and look.seen else ():
        parameters, modules = list(child.parameters()), {id(module) for module in child.modules()}
        if (
            sum(map(numel, parameters)) == size
            and not any(id(p) in trained or id(p) in look.reached for p in parameters)
            and modules.isdisjoint(look.seen)
        ):
            found |= modules
    return found


def search_heap(module_class: Any, owned: set[int]) -> Any:
    """Find the outermost module that owns most of the optimizer's parameters, when none was seen being called.

    By `type(x).__mro__`, because `isinstance` would wake lazy proxies.
    """
    modules = [found for found in gc.get_objects() if module_class in type(found).__mro__]
    inner = {id(child) for module in modules for child in module.children()}
    best, most = None, 0
    for module in modules:
        if id(module) not in inner:
            covered = sum(numel(p) for p in module.parameters() if id(p) in owned)
            if covered > most:
                best, most = module, covered
    return best


def live_optimizers() -> list[Any]:
    """Give every optimizer that there is."""
    optimizer_class = sys.modules["torch.optim.optimizer"].Optimizer
    return [found for found in gc.get_objects() if optimizer_class in type(found).__mro__]


def autocast_dtype(root: Any) -> str:
    """The dtype that autocast gives matrix products now, or an empty string where it is off."""
    torch = sys.modules["torch"]
    device = device_of(root)
    try:
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).replace("torch.", "")
    except (TypeError, RuntimeError):
        # A device that autocast does not know.
        return ""
    return ""


def device_of(root: Any) -> str:
    """The kind of device of the first parameter."""
    return next((str(p.device.type) for p in root.parameters()), "cpu")
