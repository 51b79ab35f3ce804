"""While a pickler writes classes out whole, the model's class is the user's own; afterwards it is tapped as before."""

from __future__ import annotations

import types

import pytest

from trainmeter_core.inside.taps import by_value


class Model:
    """What the tap asks of the model's: to take its own off the classes, and to put it on again."""

    def __init__(self):
        self.tapped = True

    def lift(self):
        self.tapped = False
        return ["what was lifted"]

    def put_back(self, lifted):
        assert lifted == ["what was lifted"]
        self.tapped = True


@pytest.fixture
def module():
    """A pickler's module, whose pickler says whether the model was tapped meanwhile."""

    class Pickler:
        def dump(self, thing):
            if thing is Ellipsis:
                raise TypeError("cannot pickle it")
            return (thing, agent.model is not None and agent.model.tapped)

    agent = types.SimpleNamespace(model=Model())
    return types.SimpleNamespace(Pickler=Pickler, agent=agent)


@pytest.fixture
def installed(module):
    undo = by_value.install(module, module.agent)
    yield undo
    undo()


def test_the_class_is_the_users_own_meanwhile_and_tapped_afterwards(module, installed):
    assert module.Pickler().dump(7) == (7, False)
    assert module.agent.model.tapped


def test_what_the_pickler_raises_is_raised_without_a_line_of_ours(module, installed):
    with pytest.raises(TypeError, match="cannot pickle it") as raised:
        module.Pickler().dump(...)
    assert module.agent.model.tapped
    files = [entry.path for entry in raised.traceback]
    assert not [str(file) for file in files if "trainmeter_core" in str(file)]


def test_before_there_is_a_model_the_pickler_is_only_called(module, installed):
    module.agent.model = None
    assert module.Pickler().dump(7) == (7, False)


def test_the_undo_leaves_what_somebody_else_put_there_later(module):
    own = module.Pickler.dump
    undo = by_value.install(module, module.agent)
    later = module.Pickler.dump = lambda _self, thing: thing
    undo()
    assert module.Pickler.dump is later
    module.Pickler.dump = own
