"""Finds the model by watching which modules a training step calls, then watches the calls of that one alone.

Until the first optimizer step every outermost module call is noted (`nn.Module.__call__`). The modules noted that own
the optimizer's parameters are the model; from then on only their class's `__call__` is tapped. Both wrappers give way
while torch.compile traces, which keeps graphs whole, and nothing is stored on a user's object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from ..batch_shape import batch_shape, time_first_shape
from ..guard import site
from ..used_forwards import UsedForwards, take_used
from . import model_calls
from .model_search import (
    autocast_dtype,
    carried,
    choose,
    device_of,
    in_parts,
    most_covering,
    search_heap,
    unused_copies,
)
from .noted import Noted

if TYPE_CHECKING:
    from types import ModuleType

    from ...hookspecs import Undo
    from ..agent import Agent

MYPY = False
if MYPY:
    from typing import Any, Callable

    from ..batch_shape import Shape

_SITE = site("model call")
_FIND = site("model search")
_LOOK = site("first look")

# A program that calls modules this often without one optimizer step is not training: stop noting.
_PATIENCE = 20000
# Distinct outermost modules noted while the model is unknown.
_MOST_NOTED = 512
_WRAPPERS = ("module", "_orig_mod")


def install(module: ModuleType, agent: Agent) -> Undo:
    """Start noting outermost calls of `torch.nn.Module`; `agent.model` settles on the model at the first step."""
    tap = ModelTap(module.Module, agent)
    agent.model = tap
    tap.arm()
    return tap.undo


class ModelTap:
    """Armed: notes every outermost call. Settled: taps the class of the model that the optimizer trains."""

    def __init__(self, module_class: Any, agent: Agent) -> None:
        self.armed = False
        self.any_thread = True
        """Until the first optimizer step nobody knows which thread trains."""
        self.module_class = module_class
        self.agent = agent
        self.noted: dict[int, Noted] = {}
        self.calls = 0
        self.roots: list[Any] = []
        self.tapped: list[tuple[Any, Callable[..., Any] | None]] = []
        self.tried = 0
        self.shape_of: Callable[..., Shape | None] = batch_shape
        self.inside: dict[int, Any] = {}
        """Threads in an outermost call that is noted, and what watches that call, in the first step."""
        self.sizes: Any = None
        """The sizes of the model's inputs, while its FLOPs are known for these alone."""
        self.trained: set[int] = set()
        """Ids of the model's own parameters that are trained, as far as that is known."""
        self.used_forwards = UsedForwards()
        self.copies: set[int] = set()
        """Ids of what the optimizers hold, where these are copies of the model's parameters."""
        self.described: tuple[Any, str] | None = None
        """A reference to the whole model, and its autocast dtype."""

    def arm(self) -> None:
        """Wrap `nn.Module.__call__`."""
        current = self.module_class.__call__
        if current is model_calls.noting_call:
            # Somebody's patch took ours for the original and put it back when it went.
            self.original = model_calls.module_call
            model_calls.noting = self
        elif model_calls.noting is not self or current is self.original:
            self.original = current
            model_calls.noting, model_calls.module_call = self, current
            self.module_class.__call__ = model_calls.noting_call
        self.armed = True
        self.agent.step.leader = 0

    def disarm(self) -> None:
        """Give `nn.Module.__call__` back."""
        self.armed = False
        # A patch that somebody laid over ours stays; ours only passes on then.
        if self.module_class.__call__ is model_calls.noting_call:
            self.module_class.__call__ = self.original

    def note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note an outermost call of any module; give what shall watch it, if something shall."""
        try:
            if self.agent.in_graph.stepped is not None:
                self.agent.stepped_in_graph()
                if not self.armed:
                    self._call_after_first_step(module, args, kwargs)
                    return None
            self.calls += 1
            if self.calls > _PATIENCE:
                self.disarm()
                return None
            noted = self.noted.get(id(module))
            if noted is None or noted.module() is not module:
                if len(self.noted) >= _MOST_NOTED:
                    return None
                noted = self.noted[id(module)] = Noted(module)
            if module.training and model_calls.grad_enabled():
                shape = batch_shape(args, kwargs)
                if shape is not None:
                    noted.pending.append(shape)
                    if self.agent.counting and shape not in noted.calls:
                        self._remember(noted, module, args, kwargs, shape)
                    return self._look(noted, args, kwargs, shape)
        except Exception as error:  # noqa: BLE001 - a module may be anything
            _SITE.failed(error)
        return None

    def _remember(self, noted: Noted, module: Any, args: Any, kwargs: Any, shape: Shape) -> None:
        """Keep the shapes of a call that is to be counted, of a few kinds."""
        from ..counting import MOST_SHAPES, remembered

        if len(noted.calls) < MOST_SHAPES:
            noted.calls[shape] = remembered(args, kwargs, shape, autocast_dtype(module))

    @staticmethod
    def _look(noted: Noted, args: tuple[Any, ...], kwargs: dict[str, Any], shape: Shape) -> Any:
        """Look at a module's first training call, and at later ones for sizes that differ."""
        from ..first_look import FirstLook, sizes_of

        sizes = sizes_of(args, kwargs)
        if noted.look is None or not noted.look.done:
            noted.look = FirstLook(shape, sizes)
            return noted.look
        if noted.look.sizes != sizes:
            noted.look.sizes_vary = True
        return None

    @staticmethod
    def see(look: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A module returned inside of a call that is looked at."""
        if _LOOK.on:
            with _LOOK:
                look.see(module, args, kwargs, result)

    @staticmethod
    def returned(look: Any, result: Any) -> None:
        """The call that is looked at returned."""
        if _LOOK.on:
            with _LOOK:
                look.returned(result)

    def check_sizes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell once that the model is given other sizes than its FLOPs are known for."""
        with _SITE:
            from ..first_look import sizes_of

            if sizes_of(args, kwargs) == self.sizes:
                return
            self.sizes = None
            event = self.agent.told["model"]
            description = {**event["description"], "look": {**event["description"]["look"], "sizes_vary": True}}
            self.agent.event("model", {"description": description, "gpus": event["gpus"]})
            self.agent.publish().sizes_vary(description)
            if "counted" in self.agent.told and not description["look"]["length"]:
                from ..counting import sizes_changed

                sizes_changed(self.agent)

    def _call_after_first_step(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The first step ran in a graph and was met in this call, which is already one of the model's own."""
        if module.training and model_calls.grad_enabled() and any(root() is module for root in self.roots):
            shape = self.shape_of(args, kwargs)
            if shape is not None:
                self.agent.step.other_forward(shape)

    def backward_ran(self, tensors: Any) -> None:
        """Forwards that waited for this backward are micro-batches."""
        for noted in self.noted.values():
            used = len(noted.pending)
            if used > 1:
                used = noted.used_forwards().of(tensors, used)
            take_used(noted.pending, used, noted.batches)

    def settle(self, agent: Agent, optimizer: Any) -> None:
        """Choose the model at the end of a step, hand its micro-batches to the step, and tap its class alone."""
        self.any_thread = False
        self.disarm()
        with _FIND:
            owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if self.tapped and self._trains(owned):
                self.noted.clear()
                whole = self.described and self.described[0]()
                if self.described and whole is not None and "model" not in agent.told:
                    # The child of a fork trains its parent's model.
                    self._describe(whole, self.described[1])
                return
            chosen = choose(self.noted, optimizer, agent.identity.world_size)
            best, owned = chosen.noted, chosen.owned
            if best is None:
                self.tried += 1
                if self.tried < 3:  # noqa: PLR2004 - a model first called in the next steps
                    self.arm()
                    return
                found = search_heap(self.module_class, owned)
                if found is not None:
                    self._describe(found, autocast_dtype(found))
                return
            root = whole = best.module()
            if not chosen.seen_whole:
                # Only parts were seen being called: the model's forward runs under another name. It is described, and
                # the part that is given the tokens tells its batches.
                whole = search_heap(self.module_class, owned) or root
                fed = {key: noted for key, noted in self.noted.items() if any(T for _, T, _ in noted.batches)}
                self.noted = fed or self.noted
                best = most_covering(self.noted, owned)[0] or best
                root = best.module()
            self._untap()
            self.used_forwards = best.used_forwards()
            self.copies = owned if chosen.is_copy else set()
            self.trained = {id(p) for p in root.parameters() if p.requires_grad} if chosen.is_copy else owned
            if best.look is not None and best.look.time_first:
                best.turn()
                self.shape_of = time_first_shape
            else:
                self.shape_of = batch_shape
            batches = agent.step.all_batches()
            for shape, calls in best.batches.items():
                batches[shape] = batches.get(shape, 0) + calls
            self._tap(root)
            self.noted.clear()
            self._describe(whole, best.autocast, best.look if whole is root else None)
            if agent.counting and best.calls:
                from ..counting import count_once

                look = best.look
                of_images = look is not None and look.sizes_vary and not look.shape[1]
                count_once(agent, root, list(best.calls.values()), sizes_vary=of_images)

    def leader_changed(self, optimizer: Any) -> None:
        """Another optimizer leads the run now: unless the model is its own, look for the one that is."""
        if self.armed or not self.tapped:
            return
        if not self._trains({id(p) for group in optimizer.param_groups for p in group["params"]}):
            self.undo()
            self.calls = self.tried = 0
            self.arm()

    def optimizer_made(self, optimizer: Any) -> None:
        """Note calls again if this optimizer trains nothing of the model."""
        if self.tapped and not self.armed:
            owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if not self._trains(owned):
                self.look_again()

    def look_again(self) -> None:
        """Note calls as before the first step, beside the tap that there is: another model may be trained now."""
        if self.tapped and not self.armed:
            self.calls = self.tried = 0
            self.any_thread = True
            self.arm()

    def _trains(self, owned: set[int]) -> bool:
        """Say whether the model is still there and has some of an optimizer's parameters, or their originals."""
        root = self.roots[0]()
        return root is not None and (
            not owned.isdisjoint(self.copies)
            or any(id(p) in owned for p in root.parameters())
            or (bool(self.copies) and in_parts(root))
        )

    def _root_gone(self, root: Any) -> None:
        # A model may outlive what our modules are made of, at the interpreter's end.
        if self.roots and self.roots[0] is root and not self.agent.finished:
            with _FIND:
                self.look_again()

    def _tap(self, root: Any) -> None:
        """Tap the classes of the root and of what it wraps (DDP, a compiled module), for these objects only."""
        modules = [root]
        while len(modules) < 4:  # noqa: PLR2004 - wrappers do not nest deeper
            owned = modules[-1].__dict__.get("_modules", ())
            inner = next((getattr(modules[-1], name, None) for name in _WRAPPERS if name in owned), None)
            if inner is None:
                inner = carried(modules[-1], self.trained)
            if not isinstance(inner, self.module_class):
                break
            modules.append(inner)
        ids = [id(module) for module in modules]
        self.roots = [ref(root, self._root_gone), *(ref(module) for module in modules[1:])]
        kinds: set[Any] = {type(module) for module in modules}
        for kind in kinds:
            own = vars(kind).get("__call__")
            self.tapped.append((kind, own))
            kind.__call__ = model_calls.tapped_call(kind, own, ids, self.agent, self.shape_of)

    def _watch_sizes(self, look: Any) -> None:
        """From now on compare the sizes of each training call's inputs with those that were looked at."""
        root = self.roots[0]()
        self.sizes = look.sizes
        for kind, _ in self.tapped:
            if kind is type(root):
                kind.__call__ = model_calls.watched_call(kind.__call__, id(root), self)

    def _describe(self, root: Any, autocast: str, look: Any = None) -> None:
        from ..describe import describe
        from ..gpus import fp32_may_be_tf32, gpus_of

        self.described = ref(root), autocast
        look = look if look is not None and look.done else None
        without = set() if look is None or self.copies else unused_copies(root, self.trained, look)
        description = describe(root, look, without)
        if autocast:
            description["autocast"] = autocast
        description["device"] = device_of(root)
        description["tf32"] = fp32_may_be_tf32()
        self.agent.event("model", {"description": description, "gpus": gpus_of(root)})
        publishing = self.agent.publish()
        publishing.model_found(description)
        if look is None or look.sizes_vary or not self.tapped:
            return
        if publishing.depends_on_sizes() or (self.agent.counting and not look.shape[1]):
            self._watch_sizes(look)

    def lift(self) -> list[tuple[Any, Any, Any]]:
        """Take the taps off the model's classes for a while; give what `put_back` needs."""
        lifted = []
        for kind, own in self.tapped:
            tap = vars(kind).get("__call__")
            if tap is not None and tap is not own:
                lifted.append((kind, own, tap))
                _set_call(kind, own)
        return lifted

    def put_back(self, lifted: list[tuple[Any, Any, Any]]) -> None:
        """Put the taps on again where nothing else was put meanwhile and they were not taken off for good."""
        for kind, own, tap in lifted:
            if vars(kind).get("__call__") is own and (kind, own) in self.tapped:
                kind.__call__ = tap

    def undo(self) -> None:
        """Restore every class that was touched."""
        self.disarm()
        self._untap()

    def _untap(self) -> None:
        self.sizes = None
        while self.tapped:
            kind, own = self.tapped.pop()
            _set_call(kind, own)


def _set_call(kind: Any, own: Callable[..., Any] | None) -> None:
    if own is not None:
        kind.__call__ = own
    elif "__call__" in vars(kind):
        del kind.__call__
