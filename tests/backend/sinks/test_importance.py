"""Importance and detection (K-01, K-02): closed forms, windows, both directions, learned sinks."""

import math

import numpy as np
import pytest
import torch

from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.sinks.detection import detected, main_sink, mass_per_key, sink_heads, sink_tokens
from backend.sinks.importance import importance
from kernels.score import ScoreSpec
from tests.backend.eager import eager_maps
from tests.backend.sinks.planted import sink_at, stored, uniform
from tests.backend.tiny import build, ids

HARMONIC_8 = [0.339732, 0.245408, 0.202976, 0.176905, 0.158631, 0.144841, 0.133929, 0.125]


def test_uniform_causal_attention_has_its_closed_form_and_is_its_own_baseline(tmp_path):
    found = importance(stored(tmp_path, [uniform(8), uniform(8)]))
    assert found.values[0, 0] == pytest.approx(HARMONIC_8, abs=1e-6)
    assert found.values[1, 0] == pytest.approx(found.uniform[1], abs=1e-6)
    long = importance(stored(tmp_path, [uniform(64)]))
    assert long.first[0, 0] == pytest.approx(0.074123, abs=1e-6)


def test_a_key_out_of_the_window_is_not_a_weak_sink(tmp_path):
    found = importance(stored(tmp_path, [uniform(101, ScoreSpec(scale=1.0, window=16))]))
    assert found.first[0, 0] == pytest.approx(0.211296, abs=1e-6)  # over the 16 rows that see it
    assert found.values[0, 0, 50] == pytest.approx(1 / 16, abs=1e-7)
    assert found.rows[0, 0, [0, 50, 100]].tolist() == [16, 16, 1]
    planted = importance(stored(tmp_path, [sink_at(101, 0, 8.0, ScoreSpec(scale=1.0, window=16))]))
    assert planted.first[0, 0] > 0.99  # divided by N it would be 0.16


def test_a_planted_sink_is_the_only_one(tmp_path):
    found = importance(stored(tmp_path, [sink_at(101, 0, 8.0)]))
    assert found.first[0, 0] == pytest.approx(0.983594579, abs=1e-6)
    assert found.values[0, 0, 1:80].max() < 0.0021 and np.median(found.values[0, 0, 1:]) < 5e-4
    sinks = detected(found)
    assert np.flatnonzero(sinks[0, 0]).tolist() == [0] and main_sink(found, sinks) == 0
    short = importance(stored(tmp_path, [sink_at(64, 0, 8.0)]))
    assert (short.values > 0.3).sum() == 1 and sink_heads(short).tolist() == [[True]]


def test_a_sink_in_the_middle_is_found_with_its_share(tmp_path):
    found = importance(stored(tmp_path, [sink_at(101, 40, 8.0), uniform(101)]))
    (token,) = sink_tokens(found, detected(found))
    assert (token.key, token.heads, token.largest_head) == (40, 1, (0, 0))
    assert token.largest == pytest.approx(np.mean([math.e**8 / (math.e**8 + i) for i in range(40, 101)]), abs=1e-6)
    assert mass_per_key(found).sum() == pytest.approx(1.0, abs=1e-6)


def test_late_keys_are_no_sinks(tmp_path):
    found = importance(stored(tmp_path, [uniform(40)]))
    assert found.values[0, 0, 39] == pytest.approx(1 / 40, abs=1e-6)
    self_heads = importance(stored(tmp_path, [(torch.eye(40)[None] * 30, torch.eye(40)[None], ScoreSpec(scale=1.0))]))
    late = detected(self_heads, theta=0.02)
    assert not late[0, 0, 25:].any()  # seen by fewer than 16 rows
    assert detected(self_heads, theta=0.02, least_rows=1)[0, 0, 39]


def test_k02_the_relative_rule_asks_for_ten_times_the_median_of_the_head(tmp_path):
    """Uniform attention over 40 tokens: key 0 has H_40 / 40 = 0.107, the median key 12 of the 25 that 16 rows see has
    (H_40 - H_12) / 28 = 0.04198: above theta, but only 2.55 times the median."""
    found = importance(stored(tmp_path, [uniform(40), sink_at(40, 5, 8.0)]))
    assert np.flatnonzero(detected(found)[0, 0]).tolist() == [0]
    assert not detected(found, times=10)[0].any() and not detected(found, times=2.6)[0].any()
    assert np.flatnonzero(detected(found, times=2.5)[0, 0]).tolist() == [0]
    strong = detected(found, times=10)[1, 0]  # the rows before the sink give all they have to the few keys they see
    assert np.flatnonzero(strong).tolist() == list(range(6))
    assert not detected(found, least_rows=41, times=0.0).any()


def test_a_prompt_shorter_than_the_rows_asked_for_has_no_sinks_and_no_error(tmp_path):
    for n in (1, 2):
        found = importance(stored(tmp_path, [sink_at(n, 0, 8.0)]))
        assert not detected(found).any() and sink_tokens(found, detected(found)) == []
        assert found.first[0, 0] == pytest.approx(1.0, abs=1e-3)


def test_where_attention_sees_both_ways_every_row_counts(tmp_path):
    found = importance(stored(tmp_path, [sink_at(33, 20, 3.0, ScoreSpec(scale=1.0, causal=False))]))
    assert (found.rows == 33).all()
    assert found.values[0, 0, 20] == pytest.approx(math.e**3 / (math.e**3 + 32), abs=1e-6)
    assert found.uniform[0] == pytest.approx([1 / 33] * 33, abs=1e-7)


def test_identical_tokens_without_positions_make_no_sink(tmp_path):
    # NoPE, identical tokens: every score of a row is the same, so that A_ij = 1 / n_i exactly.
    query = torch.full((3, 64, 4), 0.7)
    found = importance(stored(tmp_path, [(query, torch.full((3, 64, 4), -1.3), ScoreSpec(scale=0.5))]))
    assert found.values == pytest.approx(np.broadcast_to(found.uniform[:, None], found.values.shape), abs=1e-6)
    assert sink_heads(found).sum() == 0


def test_learned_sinks_are_apart_and_have_the_value_of_the_formula(tmp_path):
    logits = torch.arange(8) - 3.0
    query, key, _ = uniform(12, heads=8)
    found = importance(stored(tmp_path, [(query, key, ScoreSpec(scale=1.0, sink=logits))]))
    expected = [np.mean([math.exp(s) / (n + math.exp(s)) for n in range(1, 13)]) for s in logits.tolist()]
    assert found.learned[0] == pytest.approx(expected, abs=1e-6)
    assert mass_per_key(found).sum() + found.learned.mean() == pytest.approx(1.0, abs=1e-6)


def test_gpt_oss_rows_follow_the_formula(tmp_path):
    model = build("gpt_oss")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.zero_()
            layer.self_attn.q_proj.bias.zero_()
            layer.self_attn.sinks.copy_(torch.arange(8) - 3.0)
    analysis = analyse(LoadedModel.wrap(model), ids(12)[0].tolist())
    found = importance(analysis)
    for place, layer in enumerate(analysis.layers()):
        seen = [min(row + 1, layer.window_size or 12) for row in range(12)]
        for head in range(8):
            mass = math.exp(head - 3.0)
            assert found.learned[place, head] == pytest.approx(np.mean([mass / (n + mass) for n in seen]), abs=1e-6)
    assert {layer.window_size for layer in analysis.layers()} == {4, None}


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt2", "bert"])
def test_the_importance_of_every_key_is_that_of_the_models_own_maps(family):
    model, prompt = build(family), ids(24)
    found = importance(analyse(LoadedModel.wrap(model), prompt[0].tolist()))
    for place, own in enumerate(eager_maps(build(family), {"input_ids": prompt})):
        rows = (own[0] > 0).sum(1).clamp(min=1)
        expected = (own[0].double().sum(1) / torch.tensor(found.rows[place])).numpy()
        assert found.values[place] == pytest.approx(expected, abs=1e-5), layer_name(family, place, rows)


def layer_name(family: str, layer: int, rows) -> str:
    return f"{family}, layer {layer}, rows {rows.tolist()}"
