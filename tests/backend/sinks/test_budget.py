"""Mass budget (K-03), value-weighted share (F-03) and kinds of token."""

import numpy as np
import pytest
import torch

from backend.sinks.budget import (
    CONTENT,
    LEARNED,
    NEAR,
    PARTS,
    PUNCTUATION,
    SINK,
    SPECIALS,
    budget,
    parts_of_keys,
    row_budget,
)
from backend.sinks.detection import detected
from backend.sinks.importance import importance
from backend.sinks.token_types import begin_positions, token_types
from backend.sinks.value_weighted import shares
from kernels.score import ScoreSpec
from tests.backend.sinks.planted import sink_at, stored, tokens, uniform

WORDS = ["<s>", "One", ",", " two", ".", "\n", "12", "!?", " three", "(", "</s>"]
KINDS = ["begin of text", "other", "comma", "other", "full stop", "newline", "digits", "full stop", "other"]
KINDS += ["punctuation", "special"]


def part(found, name: str) -> float:
    return float(found.shares[0, 0, PARTS.index(name)])


def test_every_kind_of_token_is_told():
    made = tokens(WORDS, special=(0, 10))
    assert token_types(made) == KINDS and begin_positions(made) == [0]
    assert token_types(made[1:])[0] == "first token" and begin_positions(made[1:]) == []
    doubled = tokens(["<s>", "<s>", "x"], special=(0, 1))
    assert begin_positions(doubled) == [0, 1]
    assert begin_positions(tokens(["<s>", "x"], special=())) == []  # typed by a person: text


def test_the_parts_add_up_and_are_those_of_the_dense_map(tmp_path):
    generator = torch.Generator().manual_seed(3)
    n = 40
    query = torch.randn(4, n, 8, generator=generator) * 2
    key = torch.randn(2, n, 8, generator=generator) * 2
    key[:, 0, :] = query.mean(1)[:2] * 4
    words = (WORDS * 4)[:n]
    for score in (ScoreSpec(scale=0.4), ScoreSpec(scale=0.4, window=9), ScoreSpec(scale=0.4, causal=False),
                  ScoreSpec(scale=0.4, sink=torch.tensor([1.0, -1.0, 0.0, 2.0]))):  # fmt: skip
        analysis = stored(tmp_path, [(query, key, score)], words=words, special=(0, 10))
        found = importance(analysis)
        sinks = detected(found)
        types = token_types(analysis.tokens_list())
        near = 5
        result = budget(analysis, found, sinks, types, near=near)
        assert result.known.all() and result.shares.sum(-1) == pytest.approx(np.ones((1, 4)), abs=1e-5)
        for head in range(4):
            parts = parts_of_keys(types, sinks[0, head])
            rows = row_budget(analysis, 0, head, parts, near=near)
            choice = analysis.visible(0, head).sum(-1) >= 2
            assert result.shares[0, head] == pytest.approx(rows[choice].mean(0), abs=1e-5)
            dense, apart = analysis.map(0, head), np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
            content = parts == PARTS.index(CONTENT)
            assert rows[:, PARTS.index(NEAR)] == pytest.approx((dense * content * (apart < near)).sum(-1), abs=1e-6)


def test_uniform_attention_gives_every_part_its_count(tmp_path):
    words = ["<s>", *["a"] * 20, ".", *["b"] * 18]
    analysis = stored(tmp_path, [uniform(40)], words=words, special=(0,))
    found = importance(analysis)
    none = np.zeros_like(detected(found))
    result = budget(analysis, found, none, token_types(analysis.tokens_list()), near=1)
    rows = range(1, 40)
    assert part(result, SPECIALS) == pytest.approx(np.mean([1 / (i + 1) for i in rows]), abs=1e-6)
    assert part(result, PUNCTUATION) == pytest.approx(np.mean([(i >= 21) / (i + 1) for i in rows]), abs=1e-6)
    own = np.mean([(i != 21) / (i + 1) for i in rows])
    assert part(result, NEAR) == pytest.approx(own, abs=1e-6)
    assert part(result, SINK) == 0.0 and part(result, LEARNED) == 0.0
    first_four = none.copy()
    first_four[..., :4] = True
    sinks = budget(analysis, found, first_four, token_types(analysis.tokens_list()))
    expected = np.mean([min(4, i + 1) / (i + 1) for i in rows])
    assert part(sinks, SINK) == pytest.approx(expected, abs=1e-6)
    assert sinks.uniform[0, 0] == pytest.approx(expected, abs=1e-6)


def test_without_exact_maps_near_is_unknown_and_not_zero(tmp_path):
    analysis = stored(tmp_path, [uniform(20)], exact=())
    found = importance(analysis)
    result = budget(analysis, found, detected(found), token_types(analysis.tokens_list()))
    assert not result.known.any() and np.isnan(part(result, NEAR))
    assert np.nansum(result.shares[0, 0]) == pytest.approx(1.0, abs=1e-6)


def test_one_token_has_no_budget(tmp_path):
    analysis = stored(tmp_path, [uniform(1)])
    found = importance(analysis)
    result = budget(analysis, found, detected(found), token_types(analysis.tokens_list()))
    assert np.isnan(result.shares).all()


def test_values_of_one_length_weigh_as_much_as_they_get(tmp_path):
    analysis = stored(tmp_path, [sink_at(50, 0, 3.0)])
    found = importance(analysis)
    first = np.arange(50) == 0
    result = shares(analysis, found, first)
    assert result.weighted[0, 0] == pytest.approx(result.raw[0, 0], abs=1e-6)
    assert result.raw[0, 0] == pytest.approx(analysis.statistic("first_mass")[0, 0], abs=1e-6)


def test_a_sink_without_value_has_no_weighted_share(tmp_path):
    norms = torch.ones(1, 50)
    norms[0, 0] = 0.0
    analysis = stored(tmp_path, [sink_at(50, 0, 3.0)], norms=norms)
    result = shares(analysis, importance(analysis), np.arange(50) == 0)
    assert result.weighted[0, 0] == 0.0 and result.raw[0, 0] > 0.4


def test_the_weighted_share_is_that_of_the_dense_map(tmp_path):
    norms = torch.rand(1, 50, generator=torch.Generator().manual_seed(1)) + 0.1
    analysis = stored(tmp_path, [sink_at(50, 7, 2.0)], norms=norms)
    lengths = (analysis.map(0, 0).astype(np.float64) * norms[0].double().numpy())[1:]
    result = shares(analysis, importance(analysis), np.arange(50) == 7)
    assert result.weighted[0, 0] == pytest.approx(lengths[:, 7].sum() / lengths.sum(), abs=1e-6)
