"""What a batch and a model's components say about positions, pairs and parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.known import known
from trainmeter_core.model_shape import TARGET, TOKENS, AttentionCore, Batch, Matmul, Stream
from trainmeter_core.readings import Absent
from trainmeter_core.shape_from import dense_decoder


def brute_force_pairs(n, window, causal, chunked=False):
    def sees(query, key):
        if causal and key > query:
            return False
        if window is None:
            return True
        if chunked:
            return key // window == query // window
        return query - key < window if causal else abs(query - key) <= window // 2

    return sum(sees(query, key) for query in range(n) for key in range(n))


@given(
    n=st.integers(1, 40),
    window=st.one_of(st.none(), st.integers(1, 50)),
    mask=st.sampled_from([(True, False), (False, False), (True, True)]),
)
def test_pairs_are_those_of_the_mask_written_out(n, window, mask):
    causal, chunked = mask
    core = AttentionCore(8, 8, causal=causal, window=window, chunked=chunked and window is not None)
    assert core.pairs(Batch(3, n)) == 3 * brute_force_pairs(n, window, causal, core.chunked)


def test_window_pairs_have_the_ramp_and_the_plateau():
    """w(w+1)/2 + (T-w)w: at T=2048, w=512 the mean is 448.1 keys, neither 256 nor 1024.5."""
    pairs = AttentionCore(1, 1, window=512).pairs(Batch(1, 2048))
    assert pairs == 512 * 513 // 2 + 1536 * 512
    assert round(known(pairs) / 2048, 1) == 448.1


def test_documents_are_kept_apart():
    assert AttentionCore(1, 1).pairs(Batch(1, 8, documents=(5, 3))) == 15 + 6


def test_cross_attention_pairs_each_target_with_its_own_source():
    core = AttentionCore(1, 1, causal=False, queries=TARGET, keys=TOKENS)
    assert core.pairs(Batch(2, 10, target_len=4)) == 2 * 40
    assert core.pairs(Batch(2, 10, 4, documents=(7, 10), target_documents=(4, 2))) == 28 + 20


def test_a_mask_that_is_not_visible_is_absent():
    assert isinstance(AttentionCore(1, 1, causal=None).pairs(Batch(1, 4)), Absent)


def test_padding_is_in_positions_and_not_in_real_ones():
    batch = Batch(2, 10, documents=(7, 4))
    assert (TOKENS.positions(batch), TOKENS.real(batch), batch.tokens) == (20, 11, 20)


def test_a_stream_of_fixed_length_ignores_the_sequence_length():
    assert Stream("patches", 197).positions(Batch(2, 1)) == 394


@pytest.mark.parametrize("bad", [{"sequences": 0, "seq_len": 1}, {"sequences": 1, "seq_len": 0}])
def test_an_empty_batch_is_refused(bad):
    with pytest.raises(ValueError, match="at least one sequence"):
        Batch(**bad)


def test_more_document_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="more tokens"):
        Batch(1, 10, documents=(6, 5))


def test_an_expert_weight_counts_once_per_expert_and_k_times_per_token():
    m = Matmul("experts.up", 3, 5, count=2, experts=8, active=2)
    assert (m.weights, m.active_weights, m.part) == (3 * 5 * 2 * 8, 3 * 5 * 2 * 2, "experts")


def test_a_dense_decoder_has_the_parameters_of_llama_3_8b():
    """8,030,261,248 parameters: the published checkpoint's."""
    shape = dense_decoder(
        layers=32, width=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocabulary=128256, norms=65 * 4096
    )
    assert shape.parameters == 8_030_261_248
    assert shape.token_lookup_parameters == 128256 * 4096
    assert shape.position_lookup_parameters == 0


def test_a_tied_head_adds_no_parameters():
    tied, untied = (
        dense_decoder(layers=2, width=8, heads=2, ffn=32, vocabulary=100, tied=tied) for tied in (True, False)
    )
    assert known(untied.parameters) - known(tied.parameters) == 800
    assert (tied.tied, untied.tied) == (True, False)


def test_equal_layers_are_one_component_with_a_count():
    shape = dense_decoder(layers=6, width=8, heads=2, ffn=32, vocabulary=100, windows=(4, 4, None))
    assert [(core.window, core.count) for core in shape.cores] == [(4, 4), (None, 2)]
