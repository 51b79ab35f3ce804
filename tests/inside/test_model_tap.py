"""Which module is the model, and what its calls are: training micro-batches, evaluation, or neither."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
import torch
from torch import nn

from trainmeter_core.inside.span_clock import EVAL, OTHER, STEP
from trainmeter_core.ring_format import FLAG_BATCH_UNSEEN


class Tokens(nn.Module):
    """A tiny language model."""

    def __init__(self, width=4):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, width), nn.Linear(width, 11)

    def forward(self, ids):
        return self.head(self.embed(ids))


def ids(*dims):
    return torch.zeros(dims, dtype=torch.int64)


def sgd(*modules):
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.1)


def step(optimizer, model, *calls):
    for call in calls:
        model(call).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def described(written):
    return [event["description"]["class"] for event in written().of("model")]


def test_the_module_that_is_called_and_owns_the_parameters_is_the_model(tapped, written):
    model, other = Tokens(), nn.Linear(2, 2)
    optimizer = sgd(model)
    for _ in range(3):
        other(torch.ones(3, 2)).sum().backward()
        step(optimizer, model, ids(2, 5), ids(2, 5))
    assert described(written) == ["Tokens"]
    assert tapped.ended.used.total() == {(2, 5, 0): 6}
    assert [kind for kind, _ in tapped.model.tapped] == [Tokens]
    assert "__call__" in vars(Tokens)


def test_only_that_object_is_observed(tapped):
    model, twin = Tokens(), Tokens()
    optimizer = sgd(model)
    step(optimizer, model, ids(2, 5))
    twin(ids(9, 9)).sum().backward()
    step(optimizer, model, ids(2, 5))
    assert tapped.ended.used.total() == {(2, 5, 0): 2}


def test_submodules_called_inside_are_part_of_the_call(tapped):
    model = nn.Sequential(Tokens(), nn.Linear(11, 3))
    optimizer = sgd(model)
    for _ in range(3):
        step(optimizer, model, ids(2, 5))
    assert tapped.ended.used.total() == {(2, 5, 0): 3}


def test_a_wrapper_and_what_it_wraps_are_one_model(tapped):
    """Calls of the wrapped module itself (an evaluation by the bare model) are seen as well."""

    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            return self.module(*args)

    model = Wrapper(Tokens())
    optimizer = sgd(model)
    for _ in range(2):
        step(optimizer, model, ids(2, 5))
    model.module.eval()
    with torch.no_grad():
        model.module(ids(7, 7))
    assert tapped.step.base == EVAL
    assert tapped.ended.used.total() == {(2, 5, 0): 2}


def test_a_framework_that_calls_the_inner_model_only(tapped, written):
    """As Lightning: the optimizer has the parameters of an outer module that nobody calls."""

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Tokens()

    outer = Outer()
    optimizer = sgd(outer)
    for _ in range(3):
        step(optimizer, outer.inner, ids(2, 5))
    assert described(written) == ["Tokens"]
    assert tapped.ended.tokens == 30


@pytest.mark.parametrize("no_gradients", [torch.no_grad, torch.inference_mode])
def test_calls_without_gradients_are_evaluation(tapped, no_gradients):
    model = Tokens()
    optimizer = sgd(model)
    step(optimizer, model, ids(2, 5))
    model.eval()
    assert tapped.step.base == OTHER
    with no_gradients():
        model(ids(8, 5))
    assert tapped.step.base == EVAL
    model.train()
    step(optimizer, model, ids(2, 5))
    assert tapped.step.base == OTHER
    assert tapped.ended.tokens == 20


def test_a_call_in_train_mode_begins_the_step(tapped):
    model = Tokens()
    optimizer = sgd(model)
    step(optimizer, model, ids(2, 5))
    loss = model(ids(2, 5)).sum()
    assert tapped.step.base == STEP
    loss.backward()
    optimizer.step()
    assert tapped.step.base == OTHER


def test_a_gan_is_counted_by_its_bigger_network(tapped, written):
    """The discriminator steps first; the generator has the more parameters."""
    generator, discriminator = nn.Linear(4, 32), nn.Linear(32, 1)
    of_d, of_g = sgd(discriminator), sgd(generator)
    for _ in range(5):
        fake = generator(torch.ones(6, 4))
        (discriminator(torch.ones(6, 32)) - discriminator(fake.detach())).sum().backward()
        of_d.step()
        discriminator(fake).sum().backward()
        of_g.step()
    assert [event["description"]["params"]["total"] for event in written().of("model")] == [160]
    assert (tapped.ended.steps, tapped.ended.samples) == (5, 30)


def test_a_critic_whose_generator_is_met_later_gives_way_to_it(tapped, written):
    """The critic trains on fakes made without gradients, so that only it is seen until the generator steps."""
    generator, critic = nn.Linear(4, 32), nn.Linear(32, 1)
    of_c, of_g = sgd(critic), sgd(generator)
    for _ in range(6):
        for _ in range(2):
            with torch.no_grad():
                fake = generator(torch.ones(6, 4))
            critic(fake).sum().backward()
            of_c.step()
        critic(generator(torch.ones(6, 4))).sum().backward()
        of_g.step()
    assert [event["description"]["params"]["total"] for event in written().of("model")] == [33, 160]


@pytest.mark.parametrize("cut", ["whole", "flat", "half of them, on one of two ranks"])
def test_a_model_whose_optimizer_holds_copies_of_its_weights_is_the_model(tapped, written, cut, monkeypatch):
    """Master weights: one by one, or flat and cut for the ranks."""
    model = Tokens()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    if cut == "whole":
        copies = [p.detach().clone() for p in model.parameters()]
    else:
        copies = [flat if cut == "flat" else flat[: len(flat) // 2].clone()]
    if cut.startswith("half"):
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "2")
    optimizer = torch.optim.SGD(copies, lr=0.1)
    for _ in range(3):
        step(optimizer, model, ids(2, 5), ids(2, 5))
    assert described(written) == ["Tokens"]
    assert tapped.ended.used.total() == {(2, 5, 0): 6}
    torch.optim.SGD(copies, lr=0.1)
    assert not tapped.model.armed, "an optimizer of the same copies trains the same model"


@pytest.mark.parametrize("groups", [1, 3])
def test_a_model_that_zero_3_keeps_in_parts_is_found(groups, tapped, written):
    """As DeepSpeed does: nothing in a parameter's place between steps, and flat copies, group after group, stepped on."""
    model = Tokens()
    whole = {p: p.detach().clone() for p in model.parameters()}
    for p, full in whole.items():
        p.ds_shape, p.ds_numel = full.shape, full.numel()
    copies = list(torch.zeros(sum(full.numel() for full in whole.values())).chunk(groups))
    optimizer = torch.optim.SGD(copies, lr=0.1)
    for _ in range(3):
        for p, full in whole.items():
            p.data = full
        model(ids(2, 5)).sum().backward()
        for p in whole:
            p.grad, p.data = None, torch.empty(0)
        for flat in copies:
            optimizer.param_groups[0]["params"] = [flat]
            flat.grad = torch.ones_like(flat)
            optimizer.step()
            optimizer.param_groups[0]["params"] = []
    [event] = written().of("model")
    assert event["description"]["params"]["total"] == 11 * 4 + 4 * 11 + 11
    assert (tapped.ended.steps, tapped.ended.used.total()) == (3, {(2, 5, 0): 3})


class WithLoss(nn.Module):
    """A model and its loss as one module, as training frameworks of images and of sentences have it."""

    def __init__(self, model, averaged=None):
        super().__init__()
        self.model, self.averaged, self.loss = model, averaged, nn.CrossEntropyLoss()

    def forward(self, ids):
        return self.loss(self.model(ids).flatten(0, 1), ids.flatten())


def test_of_a_model_inside_of_its_loss_both_calls_are_seen(tapped):
    """The loss is called to train, the model by itself to evaluate."""
    model = Tokens()
    whole, optimizer = WithLoss(model), sgd(model)
    for _ in range(3):
        step(optimizer, whole, ids(2, 5))
    with torch.no_grad():
        model.eval()(ids(7, 5))
        assert tapped.step.base == EVAL
    assert tapped.ended.used.total() == {(2, 5, 0): 3}


def test_an_average_of_the_weights_that_lies_in_the_root_is_no_part_of_the_model(tapped, written):
    """Its weights need gradients by mistake, as a copy's do; it is never called to train."""
    model = Tokens()
    whole, optimizer = WithLoss(model, copy.deepcopy(model)), sgd(model)
    for _ in range(2):
        step(optimizer, whole, ids(2, 5))
    [event] = written().of("model")
    assert event["description"]["params"]["total"] == sum(p.numel() for p in model.parameters())
    assert not [entry for entry in event["description"]["modules"] if "averaged" in entry["names"]]


def test_a_teacher_of_the_same_size_that_is_called_is_a_part(tapped, written):
    class Distilled(WithLoss):
        def forward(self, ids):
            with torch.no_grad():
                target = self.averaged(ids)
            return (self.model(ids) - target).pow(2).mean()

    model = Tokens()
    whole, optimizer = Distilled(model, copy.deepcopy(model)), sgd(model)
    for _ in range(2):
        step(optimizer, whole, ids(2, 5))
    [event] = written().of("model")
    assert event["description"]["params"]["total"] == sum(p.numel() for p in whole.parameters())


def test_what_a_bigger_net_judges_is_not_taken_for_a_copy_of_its_weights(tapped, written):
    """A picture that is drawn by gradients through a net which is not trained."""
    judge, picture = Tokens(width=40), nn.Parameter(torch.zeros(3, 4))
    optimizer = torch.optim.SGD([picture], lr=0.1)
    for _ in range(5):
        (judge(ids(2, 5)).sum() * picture.sum()).backward()
        optimizer.step()
    assert described(written) == []


def test_a_frozen_teacher_is_not_the_model(tapped, written):
    teacher, student = Tokens(64), Tokens()
    optimizer = sgd(student)
    for _ in range(3):
        target = teacher(ids(2, 5))
        (student(ids(2, 5)) - target.detach()).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [event["description"]["params"]["total"] for event in written().of("model")] == [
        sum(p.numel() for p in student.parameters())
    ]


def test_a_model_that_is_never_called_is_found_all_the_same(tapped, written):
    """Called by a name of its own, so that no call is seen: described, and its batches unseen."""

    class Quiet(Tokens):
        def loss(self, ids):
            return self.forward(ids).sum()

    model = Quiet()
    optimizer = sgd(model)
    for _ in range(5):
        model.loss(ids(2, 5)).backward()
        optimizer.step()
    assert described(written) == ["Quiet"]
    assert tapped.ended.steps == 5


def test_a_program_that_only_infers_is_left_alone_after_a_while(tapped, monkeypatch):
    from trainmeter_core.inside.taps import model as module

    monkeypatch.setattr(module, "_PATIENCE", 10)
    model = Tokens().eval()
    for _ in range(12):
        model(ids(1, 2))
    assert not tapped.model.armed


def test_the_model_is_held_weakly(tapped):
    model = Tokens()
    step(sgd(model), model, ids(2, 5))
    from weakref import ref

    gone = ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_the_order_of_optimizer_and_device_and_dtype_is_told(tapped, written):
    model = Tokens()
    optimizer = sgd(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(ids(2, 5)).sum()
    loss.backward()
    optimizer.step()
    description = written().of("model")[0]["description"]
    assert (description["device"], description["autocast"], description["dtype"]) == ("cpu", "bfloat16", "float32")


def test_a_thread_that_trains_on_when_the_first_has_ended_is_followed(tapped, written):
    """A program may train each epoch on a thread of its own."""
    model = Tokens()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def epoch(begin):
        begin.wait()
        for _ in range(3):
            model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
            optimizer.step()

    begins = [threading.Event() for _ in range(3)]
    # All of them at once, so that none is given the number of one that has ended.
    threads = [threading.Thread(target=epoch, args=(begin,)) for begin in begins]
    for thread in threads:
        thread.start()
    for begin, thread in zip(begins, threads, strict=True):
        begin.set()
        thread.join()
    told = written()
    assert [(record.step, record.tokens) for record in told.records] == [(step, 10) for step in range(1, 10)]
    assert not any(record.flags & FLAG_BATCH_UNSEEN for record in told.records)


def test_a_class_below_the_models_inherits_its_call_as_ever(tapped):
    """An object of a class below the model's own may find another `__call__` between that and `nn.Module`."""

    class Mixin(nn.Module):
        def __call__(self, *args, **kwargs):
            return "mixin", super().__call__(*args, **kwargs)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x):
            return self.linear(x)

    class Below(Model, Mixin):
        pass

    model, below = Model(), Below()
    batch = torch.ones(2, 4)
    assert below(batch)[0] == "mixin"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(batch).sum().backward()
        optimizer.step()
    assert "__call__" in vars(Model)
    assert below(batch)[0] == "mixin"
    assert tapped.ended.samples == 6


class EitherKind(nn.Module):
    """Takes token ids or features, and fails where it is told to."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.fails = False

    def forward(self, batch):
        if self.fails:
            raise MemoryError
        return batch.float() * self.weight


def test_each_batch_is_read_for_what_it_is_whatever_the_last_one_was(tapped):
    """What was read off a batch stands for the next one of the same size and kind alone."""
    model = EitherKind()
    optimizer = sgd(model)
    batches = [ids(2, 5), ids(2, 5), ids(3, 7), ids(2, 5), torch.ones(2, 5), ids(2, 5), torch.ones(3, 5)]
    for batch in batches:
        step(optimizer, model, batch)
    assert tapped.ended.used.total() == {(2, 5, 0): 4, (3, 7, 0): 1, (2, 0, 0): 1, (3, 0, 0): 1}
    assert (tapped.ended.tokens, tapped.ended.samples) == (4 * 10 + 21, 4 * 2 + 3 + 2 + 3)


def test_a_batch_whose_forward_raised_in_a_usual_step_is_not_used(tapped):
    model = EitherKind()
    optimizer = sgd(model)
    for _ in range(4):
        step(optimizer, model, ids(2, 5))
        model.fails = True
        with pytest.raises(MemoryError):
            model(ids(2, 5))
        model.fails = False
    step(optimizer, model, ids(2, 5))
    assert tapped.ended.used.total() == {(2, 5, 0): 5}


def test_a_forward_that_waits_when_a_graph_has_stepped_is_used_with_the_next_backward(tapped):
    """As one that waits at any other time: the steps that follow are not usual ones before it is."""
    model = EitherKind()
    optimizer = sgd(model)
    for _ in range(3):
        step(optimizer, model, ids(2, 5))
    model(ids(2, 5)).sum().backward()
    first = model(ids(2, 5))
    tapped.in_graph.stepped = optimizer
    (first + model(ids(2, 5))).sum().backward()
    optimizer.step()
    assert tapped.ended.used.total() == {(2, 5, 0): 3 + 1 + 2}
    assert tapped.ended.steps == 5
