"""A live model without a config: exact by what its first training call showed, equal to FlopCounterMode on that step."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest

from tests.known import known

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.inside.looked_at import (  # noqa: E402
    HEADS,
    Attention,
    B,
    D,
    Head,
    Labelled,
    Language,
    Mixed,
    ResNet,
    T,
    TwoHeads,
    UNet,
    V,
    audio,
    hugging_face,
    image,
    mask,
    tokens,
    volume,
)  # fmt: skip
from trainmeter_core.flops import training_flops  # noqa: E402
from trainmeter_core.model_shape import AttentionCore, Batch  # noqa: E402
from trainmeter_core.readings import Absent  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402


def train(model, *batches):
    """One optimizer step for each batch."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def seen(agent):
    shape, _source = known(shape_of(agent.told["model"]["description"]))
    return shape


def exact(agent, without_mask=False):
    """FLOPs of the agent's own first batch."""
    shape = seen(agent)
    if without_mask:
        parts = (replace(c, causal=False) if isinstance(c, AttentionCore) else c for c in shape.components)
        shape = replace(shape, components=tuple(parts))
    batch = shape.batch_seen(*next(iter(agent.ended.used.total())))
    return batch if isinstance(batch, Absent) else training_flops("exact", shape, batch)


def counted(model, batch):
    """What torch's counter says of a step, with attention as plain matmuls."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        deepcopy(model)(batch).sum().backward()
    return counter.get_total_flops()


NETS = {
    "ResNet": (ResNet, (3, 64, 64)),
    "U-Net": (UNet, (3, 16, 24)),
    "audio": (audio, (1, 200)),
    "volume": (volume, (1, 6, 7, 8)),
    "attention on a feature map": (Mixed, (3, 16, 16)),
}


@pytest.mark.parametrize("name", NETS)
def test_a_net_of_convolutions_counts_as_torch_counts_it(name, tapped):
    make, size = NETS[name]
    model, batch = make(), torch.randn(B, *size)
    expected = counted(model, batch)
    train(model, batch, batch)
    assert exact(tapped) == expected


def test_a_resnet_by_hand(tapped):
    """18 layers of convolutions on halving maps; the first one's input needs no gradient, so it costs 4 instead of 6."""
    train(ResNet(), image(64, 64))
    stages = [(4, 4, 16), (4, 8, 8), (8, 16, 4), (16, 32, 2)]  # inputs, outputs, side of the map behind it
    first = 4 * 3 * 4 * 49 * 32 * 32
    convolutions = sum(
        9 * side * side * (inputs * outputs + 3 * outputs * outputs) + (inputs * outputs * side * side) * (side < 16)
        for inputs, outputs, side in stages
    )
    assert exact(tapped) == B * (first + 6 * (convolutions + 32 * 10))


def test_frozen_layers_cost_what_autograd_needs(tapped):
    model = ResNet()
    for parameter in [*model.conv1.parameters(), *model.norm.parameters(), *model.layers[:3].parameters()]:
        parameter.requires_grad_(False)
    expected = counted(model, image(64, 64))
    train(model, image(64, 64))
    assert exact(tapped) == expected


def test_a_grouped_convolution_is_its_own_weights(tapped):
    """By hand: torch's counter takes the weight's gradient for an ungrouped one's."""
    train(nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)), image(5, 5))
    assert exact(tapped) == B * 25 * (4 * 3 * 8 + 6 * 8 * 9)


def test_images_of_another_size_leave_exact_out_from_then_on(tapped):
    """The batches do not tell their sizes, so that no count is made up for a mixture of them."""
    model = UNet()
    train(model, image(16, 16), image(16, 16))
    assert exact(tapped)
    model.eval()
    with torch.no_grad():
        model(image(24, 24))
    assert exact(tapped), "an evaluation trains nothing"
    model.train()
    train(model, image(24, 24))
    assert "change their size" in str(exact(tapped))


def test_sizes_that_differ_within_the_first_step_leave_it_out_too(tapped):
    model = UNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for size in (16, 24):
        model(image(size, size)).sum().backward()
    optimizer.step()
    assert "change their size" in str(exact(tapped))


def test_a_model_of_tokens_is_not_watched(tapped):
    model = Language(Attention(causal=True))
    train(model, tokens(), tokens(8), tokens())
    assert tapped.model.sizes is None
    assert len(tapped.model.tapped) == 1
    assert exact(tapped)


CAUSAL = {
    "flag": (lambda: Attention(causal=True), True),
    "no mask": (Attention, False),
    "lower triangle": (lambda: Attention(mask=mask("lower triangle")), True),
    "lower triangle, with padding": (lambda: Attention(mask=mask("lower triangle, with padding")), True),
    "lower triangle, added": (lambda: Attention(mask=mask("added")), True),
    "a mask of nothing": (lambda: Attention(mask=mask("nothing")), False),
    "a band": (lambda: Attention(mask=mask("a band")), None),
    "a buffer": (Head, True),
}


@pytest.mark.parametrize("how", CAUSAL)
def test_whether_attention_is_causal_is_read_off_what_ran(how, tapped):
    make, causal = CAUSAL[how]
    model, batch = Language(make()), tokens()
    expected = counted(model, batch)
    train(model, batch)
    assert {core.causal for core in seen(tapped).cores} == {causal}
    assert exact(tapped, without_mask=True) == expected
    if causal is None:
        assert "causal" in str(exact(tapped))
    elif causal:
        assert exact(tapped) < expected
    else:
        assert exact(tapped) == expected


def test_reading_the_mask_unpacks_no_saved_tensor(tapped):
    """Unpacking would move an offloaded tensor back, or run a checkpointed layer again."""
    unpacked: list[object] = []

    class Model(Language):
        def forward(self, ids):
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpacked.append):
                return super().forward(ids)

    model = Model(Attention(mask=mask("lower triangle")))
    look: dict = {}
    tapped.model.returned = lambda looked, result: look.update(products=type(tapped.model).returned(looked, result))
    model(tokens())
    assert look
    assert unpacked == []


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_model_is_not_run_again_and_counts_the_same(reentrant, tapped):
    class Model(Language):
        calls = 0

        def forward(self, ids):
            x = self.table(ids)
            for block in self.blocks:
                x = x + checkpoint(self.run, block, x, use_reentrant=reentrant)
            return self.out(x)

        def run(self, block, x):
            Model.calls += 1
            return block(x)

    model, batch = Model(Attention(causal=True)), tokens()
    plain = Language(Attention())
    expected = counted(plain, batch)
    train(model, batch)
    assert Model.calls == 4  # twice forward, twice again
    if reentrant:  # its graph is hidden, and so is whether the attention is causal
        assert isinstance(exact(tapped), Absent)
    else:
        assert exact(tapped, without_mask=True) == expected


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("causal", [False, True])
def test_torch_s_own_transformer(dropout, causal, tapped):
    """Fused without dropout on the CPU, written out with it."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(V, D)
            layer = nn.TransformerEncoderLayer(D, HEADS, 32, dropout=dropout, batch_first=True)
            self.encoder, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(D, V)

        def forward(self, ids):
            hidden = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) if causal else None
            return self.out(self.encoder(self.table(ids), mask=hidden))

    model, batch = Model(), tokens()
    expected = counted(model, batch)
    train(model, batch)
    assert {core.causal for core in seen(tapped).cores} == {causal}
    assert exact(tapped, without_mask=True) == expected


def test_an_encoder_and_a_masked_decoder(tapped):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(V, D), nn.Linear(D, V)
            self.transformer = nn.Transformer(D, HEADS, 1, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, ids):
            x = self.table(ids)
            hidden = self.transformer.generate_square_subsequent_mask(5)
            return self.out(self.transformer(x, x[:, :5], tgt_mask=hidden))

    model, batch = Model(), tokens()
    expected = counted(model, batch)
    train(model, batch)
    assert sorted((c.queries.padded(Batch(B, T)), c.keys.padded(Batch(B, T))) for c in seen(tapped).cores) == [
        (5, 5),
        (5, 12),
        (12, 12),
    ]
    assert exact(tapped, without_mask=True) == expected


def test_attention_that_no_name_and_no_kernel_tells_is_not_left_out_in_silence(tapped):
    train(Language(Attention(written_out=True)), tokens())
    assert "multiplied with each other" in str(exact(tapped))


def test_a_head_that_is_only_a_function_is_not_left_out_in_silence(tapped):
    train(Language(Attention(causal=True), tied_by_function=True), tokens())
    assert "weights are multiplied" in str(exact(tapped))


def test_a_classifier_of_a_sequence_runs_once_for_it(tapped):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.rnn, self.fc = nn.Embedding(V, D), nn.LSTM(D, D, batch_first=True), nn.Linear(D, 3)

        def forward(self, ids):
            return self.fc(self.rnn(self.table(ids))[0][:, -1])

    train(Classifier(), tokens(), tokens(7))
    assert exact(tapped) == 6 * B * (T * 4 * D * 2 * D + D * 3)


def test_what_a_compiled_model_does_is_not_seen(tapped):
    model = torch.compile(UNet(), backend="eager")
    train(model, image(16, 16))
    assert "compiled" in str(exact(tapped))


def test_a_broken_look_costs_the_look_alone(tapped, lenient, monkeypatch):
    from trainmeter_core.inside import first_look

    monkeypatch.setattr(first_look.FirstLook, "see", lambda *_: 1 / 0)
    model = UNet()
    train(model, image(16, 16), image(16, 16))
    assert tapped.ended.steps == 2
    assert isinstance(exact(tapped), Absent)


def test_the_first_look_changes_neither_losses_nor_random_numbers(tapped):
    def run():
        torch.manual_seed(0)
        model = nn.Sequential(UNet(), nn.Dropout(0.5))
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(3):
            loss = model(image(8, 8)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, torch.get_rng_state()

    watched = run()
    tapped.uninstall()
    bare = run()
    assert watched[0] == bare[0]
    assert torch.equal(watched[1], bare[1])


def test_weights_that_the_loss_does_not_read_are_only_run_forward(tapped):
    model, batch = TwoHeads(), image(6, 6)
    expected = counted(model, batch)
    train(model, batch)
    assert exact(tapped) == expected


@pytest.mark.parametrize("name", ["resnet", "beit"])
def test_a_model_of_images_whose_config_does_not_tell_its_positions(name, tapped):
    model, batch = Labelled(hugging_face(name)), image(16, 16)
    expected = counted(model, batch)
    train(model, batch)
    assert exact(tapped, without_mask=True) == exact(tapped) == expected


def test_attention_within_windows_is_not_taken_for_attention_over_everything(tapped):
    model, batch = Labelled(hugging_face("swin")), image(16, 16)
    expected = counted(model, batch)
    train(model, batch)
    found = exact(tapped, without_mask=True)
    assert isinstance(found, Absent) or found == expected


def test_a_wrapped_model_shows_the_same(tapped, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model, batch = UNet(), image(16, 16)
        expected = counted(model, batch)
        train(nn.parallel.DistributedDataParallel(model), batch, batch)
        assert exact(tapped) == expected
    finally:
        torch.distributed.destroy_process_group()


def test_a_count_does_not_stand_for_images_of_another_size(tapped):
    """Counted at the first step; taken back when a batch of as many images brings other sizes."""
    tapped.counting = True
    model = UNet()
    train(model, image(16, 16))
    assert [counts[:3] for counts in tapped.told["counted"]["counts"]] == [[B, 0, 0]]
    assert tapped.told["counted"]["counts"][0][3] == counted(model, image(16, 16))
    train(model, image(16, 16), image(8, 8))
    assert tapped.told["counted"]["counts"] == []
    assert "change their size" in tapped.told["counted"]["absent"]


@pytest.mark.parametrize("kind", ["attention", "recurrent"])
def test_ids_with_time_first_are_told_by_the_layer_that_wants_them_so(kind, tapped):
    """Ids of (T, B) reach it as they are; where the model itself puts time first, they are (B, T)."""

    class Model(nn.Module):
        def __init__(self, turns):
            super().__init__()
            self.turns, self.table, self.out = turns, nn.Embedding(V, D), nn.Linear(D, V)
            self.layer = nn.TransformerEncoderLayer(D, HEADS, 32) if kind == "attention" else nn.LSTM(D, D)

        def forward(self, ids):
            x = self.table(ids.T if self.turns else ids)
            x = self.layer(x)
            return self.out(x if kind == "attention" else x[0])

    for turns, given in ((False, (T, B)), (True, (B, T))):
        model = Model(turns)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            model(torch.zeros(given, dtype=torch.int64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert set(tapped.ended.used.total()) == {(B, T, 0)}
