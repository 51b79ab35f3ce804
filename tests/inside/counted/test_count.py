"""A count equals torch's FlopCounterMode on the real step, names what it leaves out, and touches nothing."""

from __future__ import annotations

import random
from time import sleep
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F  # noqa: N812 - after the skip; the field's name
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from trainmeter_core.inside.counted import Call, NotSeen, count, facts_of
from trainmeter_core.inside.counted.formulas import looks_like_matmul

B, T, D, HEADS, V = 2, 8, 16, 2, 30
LONG_S = 120.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(D)
        self.qkv, self.out, self.drop = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Dropout(0.1)
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        self.last = x
        q, k, v = self.qkv(self.norm(x.mT).mT).view(B, T, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        return x + self.drop(
            self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D))
        )


class Tiny(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.table, self.blocks = nn.Embedding(V, D), nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(D, V, bias=False)
        self.head.weight = self.table.weight
        self.recompute = recompute

    def forward(self, tokens, targets=None):
        x = self.table(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = self.head(x)
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@pytest.fixture
def tokens():
    return torch.randint(0, V, (B, T))


def call_of(*args, **kwargs):
    return Call(
        [facts_of(value) for value in args], {name: facts_of(value) for name, value in kwargs.items()}, (B, T, 0)
    )


def real(model, *args):
    """What FlopCounterMode says of the real step, attention as plain matmuls."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(*args)[1].backward()
    return counter.get_total_flops()


def counted(model, *args, **options):
    with sdpa_kernel(SDPBackend.MATH):
        found = count(model, call_of(*args), LONG_S, **options)
    assert found.absent == ""
    return found


def test_it_equals_the_counter_on_the_real_step(tokens):
    model = Tiny()
    assert counted(model, tokens, tokens).flops == real(model, tokens, tokens)


def test_recomputation_is_counted(tokens):
    model, again = Tiny(), Tiny(recompute=True)
    assert counted(again, tokens, tokens).flops == real(again, tokens, tokens) > real(model, tokens, tokens)


def test_the_meta_device_says_the_same(tokens):
    with torch.device("meta"):
        model = Tiny()
    meta = tokens.to("meta")
    assert counted(model, meta, meta).flops == real(Tiny(), tokens, tokens)


def test_without_a_loss_the_backward_pass_begins_at_the_outputs(tokens):
    model = Tiny()
    assert counted(model, tokens).flops == real(model, tokens, tokens)


def test_a_fused_kernel_on_the_cpu_is_the_plain_matmuls_and_its_second_look_at_the_scores(tokens):
    model = Tiny()
    fused = count(model, call_of(tokens, tokens), LONG_S)
    scores = 2 * B * HEADS * T * T * (D // HEADS)
    assert (fused.flops, fused.gaps) == (real(model, tokens, tokens) + len(model.blocks) * scores, {})


def test_nothing_of_the_users_is_touched(tokens):
    """Random states, weights, gradients, buffers, attributes, containers, hooks, and what a hook would have done."""
    model, calls = Tiny(), []
    model.blocks[0].register_forward_hook(lambda *_: calls.append("forward"))
    model.head.weight.register_post_accumulate_grad_hook(lambda _: calls.append("gradient"))
    model(tokens, tokens)[1].backward()
    calls.clear()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    attributes = {name: dict(module.__dict__) for name, module in model.named_modules()}
    seen, last = list(model.blocks[0].seen), model.blocks[0].last
    states = torch.get_rng_state(), random.getstate()
    assert counted(model, tokens, tokens).flops
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert calls == []
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, gradients[name]) for name, p in model.named_parameters())
    assert {name: dict(module.__dict__) for name, module in model.named_modules()} == attributes
    assert [id(each) for each in model.blocks[0].seen] == [id(each) for each in seen]
    assert model.blocks[0].last is last


def test_training_goes_on_bit_by_bit_as_without_it(tokens):
    def losses(counting):
        torch.manual_seed(0)
        model = Tiny(recompute=True)
        optimizer = torch.optim.AdamW(model.parameters())
        found = []
        for step in range(4):
            loss = model(tokens, tokens)[1]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if counting and step == 1:
                counted(model, tokens, tokens)
            found.append(loss.item())
        return found, [p.detach().clone() for p in model.parameters()]

    (plain, weights), (other, others) = losses(False), losses(True)
    assert plain == other
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_counted_in_the_clear_and_not_compiled_again(in_place, tokens):
    class Layer(nn.Linear):
        def forward(self, x):
            return super().forward(x).relu()

    model, graphs = nn.Sequential(nn.Embedding(V, D), Layer(D, D), nn.Linear(D, V)), []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    if in_place:
        model[1].compile(backend=backend)
    else:
        model = torch.compile(model, backend=backend)
    model(tokens)
    before = len(graphs)
    assert count(model, call_of(tokens), LONG_S).flops == 6 * B * T * (D * D + D * V)
    model(tokens)
    assert len(graphs) == before == 1


@pytest.fixture
def one_rank(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_wrapped_for_data_parallel_training(tokens, one_rank):
    model = Tiny()
    expected = real(model, tokens, tokens)
    assert counted(nn.parallel.DistributedDataParallel(model), tokens, tokens).flops == expected


def test_a_sharded_model_counts_as_a_whole_and_gathers_nothing(tokens, one_rank):
    from torch.distributed.fsdp import fully_shard

    model = Tiny()
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    expected = real(model, tokens, tokens)
    for block in model.blocks:
        fully_shard(block)
    assert counted(fully_shard(model), tokens, tokens).flops == expected


@pytest.mark.parametrize("for_checkpointing", [False, True])
def test_adapters(for_checkpointing):
    """Frozen weights cost what autograd needs, also where input gradients are forced by a hook."""
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=D, intermediate_size=24, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=1,
        attn_implementation="eager",
    )  # fmt: skip
    base = transformers.LlamaForCausalLM(config)
    if for_checkpointing:
        base.enable_input_require_grads()
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"]))
    tokens = torch.randint(0, V, (B, T))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, labels=tokens).loss.backward()
    found = count(model, call_of(input_ids=tokens, labels=tokens), LONG_S)
    assert (found.flops, found.gaps, found.absent) == (counter.get_total_flops(), {}, "")


def test_grouped_matmuls_are_counted():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, D, 3 * D, dtype=torch.bfloat16))

        def forward(self, x, ends):
            return torch._grouped_mm(x, self.weight, offs=ends)

    x, ends = torch.randn(32, D, dtype=torch.bfloat16), torch.tensor([8, 16, 24, 32], dtype=torch.int32)
    found = count(Experts(), call_of(x, ends), LONG_S)
    assert (found.flops, found.gaps) == (2 * 2 * 32 * D * 3 * D, {})  # forward and the weight's gradient


@pytest.mark.parametrize("layers", [1, 2])
def test_a_recurrent_network_is_counted_as_its_weights_at_each_position(layers):
    found = count(nn.LSTM(D, D, layers), call_of(torch.randn(T, B, D, requires_grad=True)), LONG_S)
    assert (found.flops, found.gaps, found.absent) == (3 * 2 * T * B * 4 * D * 2 * D * layers, {}, "")


def test_an_operation_of_an_extension_without_a_formula_is_named(tokens):
    @torch.library.custom_op("tests::attention", mutates_args=())
    def attention(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    attention.register_fake(torch.empty_like)
    attention.register_autograd(lambda ctx, grad: grad)

    class Model(Tiny):
        def forward(self, tokens, targets=None):
            return self.head(attention(attention(self.table(tokens))))

    found = count(Model(), call_of(tokens), LONG_S)
    assert (found.flops, found.gaps) == (3 * 2 * B * T * D * V, {"tests::attention": 2})


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("flash_attn_3::fwd", True),
        ("aten::miopen_rnn", True),
        ("aten::linalg_solve", True),
        ("aten::add", False),
        ("aten::addcmul", False),
        ("aten::upsample_bilinear2d", False),
        ("prims::convert_element_type", False),
        ("aten::_thnn_fused_lstm_cell", False),
    ],
)
def test_what_looks_like_a_matmul(name, is_one):
    assert looks_like_matmul(name) is is_one


class Hungry(nn.Linear):
    """Keeps memory of its own at each of its many operations, or takes its time."""

    def __init__(self, kept_bytes=0, pause_s=0.0):
        super().__init__(D, D)
        self.kept, self.kept_bytes, self.pause_s = [], kept_bytes, pause_s

    def forward(self, x):
        for _ in range(1200):
            self.kept.append(b"x" * self.kept_bytes)
            sleep(self.pause_s)
            x = super().forward(x)
        return x


def test_it_gives_up_past_a_bound_of_memory():
    """600 MB more than at its start, where 100 MB are allowed; looked at every 500 operations."""
    model = Hungry(kept_bytes=1 << 19)
    found = count(model, call_of(torch.randn(B, D)), LONG_S, most_bytes=100 << 20)
    assert (found.flops, found.absent) == (None, "counting took too much memory")
    assert model.kept == []


def test_it_gives_up_past_a_bound_of_time():
    found = count(Hungry(pause_s=0.01), call_of(torch.randn(B, D)), limit_s=0.3)
    assert (found.flops, found.absent) == (None, "counting took too long")
    assert found.seconds < 6


def test_within_its_bounds_the_same_model_is_counted():
    assert count(Hungry(), call_of(torch.randn(B, D)), LONG_S).flops == 1200 * 2 * B * D * D * 3 - 2 * B * D * D


class Odd(nn.Linear):
    """Models that cannot be run on tensors without data."""

    def __init__(self, what):
        super().__init__(D, D)
        self.what = what

    def forward(self, x):
        x = super().forward(x)
        if self.what == "data":
            return x[x > 0]
        if self.what == "memory":
            return x + x.data_ptr()
        if self.what == "communicates":
            torch.distributed.all_reduce(x)
        raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    ("what", "reason"),
    [("data", "depends on its data"), ("memory", "a kernel outside of torch"), ("", "no such thing")],
)
def test_what_cannot_be_counted_says_why(what, reason):
    found = count(Odd(what), call_of(torch.randn(B, D)), LONG_S)
    assert found.flops is None
    assert reason in found.absent


def test_a_model_that_communicates_is_left_alone(one_rank):
    assert "communicates" in count(Odd("communicates"), call_of(torch.randn(B, D)), LONG_S).absent


def test_a_call_is_kept_without_its_tensors(tokens):
    import transformers

    batch = transformers.BatchEncoding({"input_ids": tokens, "labels": None})
    facts = facts_of(({"x": [tokens, 3, "a"]}, batch, torch.float32))
    assert not [each for each in _leaves(facts) if isinstance(each, torch.Tensor)]
    with pytest.raises(NotSeen, match="SimpleNamespace"):
        facts_of(SimpleNamespace(x=tokens))


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
