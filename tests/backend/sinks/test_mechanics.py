"""Mechanics (K-04) and massive dimensions and activations (B-09)."""

import math

import numpy as np
import pytest
import torch

from backend.sinks.importance import importance
from backend.sinks.massive import massive_activations, massive_dimensions, median_magnitude
from backend.sinks.mechanics import mechanics
from kernels.score import ScoreSpec
from tests.backend.sinks.planted import sink_at, stored, uniform


def drawn(heads: int, n: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(heads, n, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "score",
    [
        ScoreSpec(scale=0.5),
        ScoreSpec(scale=0.5, window=7),
        ScoreSpec(scale=0.5, causal=False),
        ScoreSpec(scale=0.5, softcap=1.5, sink=torch.tensor([0.5, -1.0, 2.0, 0.0])),
    ],
    ids=["causal", "window", "both ways", "softcap and learned sink"],
)
def test_angles_and_gap_are_those_of_the_dense_map(tmp_path, score):
    query, key = drawn(4, 21, 8, 1), drawn(2, 21, 8, 2)
    analysis = stored(tmp_path, [(query, key, score)])
    found = mechanics(analysis, importance(analysis), 3)
    for head in range(4):
        q, k = query[head].double(), key[head // 2].double()
        scores = q @ k.T * 0.5
        if score.softcap:
            scores = 1.5 * torch.tanh(scores / 1.5)
        seen = torch.from_numpy(analysis.visible(0, head))
        rows = seen[:, 3] & (seen.sum(-1) >= 2)
        others = seen.clone()
        others[:, 3] = False
        rest = scores.masked_fill(~others, -torch.inf)
        if score.sink is not None:
            rest = torch.cat([rest, score.sink[head].double().expand(21, 1)], -1)
        gap = (scores[:, 3] - rest.logsumexp(-1))[rows].mean()
        cosines = torch.nn.functional.normalize(q, dim=-1) @ torch.nn.functional.normalize(k, dim=-1).T
        means = (cosines * others).sum(-1) / others.sum(-1)
        assert found.gap[0, head] == pytest.approx(gap.item(), abs=1e-5)
        assert found.cosine[0, head] == pytest.approx(cosines[rows, 3].mean().item(), abs=1e-6)
        assert found.other_cosine[0, head] == pytest.approx(means[rows].mean().item(), abs=1e-6)


def test_the_gap_of_uniform_attention_is_that_of_the_number_of_others(tmp_path):
    analysis = stored(tmp_path, [uniform(20)])
    found = mechanics(analysis, importance(analysis), 0)
    assert found.gap[0, 0] == pytest.approx(-np.mean([math.log(i) for i in range(1, 20)]), abs=1e-6)
    assert found.cosine[0, 0] == 0.0  # no direction


def test_norms_are_compared_with_the_median_of_the_others(tmp_path):
    norms = torch.tensor([[8.0, 1.0, 2.0, 3.0, 4.0]])
    analysis = stored(tmp_path, [sink_at(5, 0, 1.0)], norms=norms, hidden=torch.tensor([50.0, 5.0, 5.0, 5.0, 7.0]))
    found = mechanics(analysis, importance(analysis), 0)
    assert found.key_norm[0, 0] == found.value_norm[0, 0] == found.output_norm[0, 0] == pytest.approx(8 / 2.5)
    assert found.hidden_norm[0] == pytest.approx(10.0)


def test_what_a_single_token_or_a_pooled_head_lacks_is_undefined(tmp_path):
    one = stored(tmp_path, [uniform(1)])
    found = mechanics(one, importance(one), 0)
    assert all(np.isnan(value).all() for value in vars(found).values())
    pooled = stored(tmp_path, [uniform(9)], exact=())
    found = mechanics(pooled, importance(pooled), 0)
    assert np.isnan(found.gap).all() and found.key_norm[0, 0] == pytest.approx(1.0)


def test_a_planted_dimension_is_found_and_random_vectors_have_none(tmp_path):
    query, key = drawn(4, 300, 64, 1), drawn(2, 300, 64, 2)
    plain = stored(tmp_path, [(query, key, ScoreSpec(scale=0.1))])
    assert massive_dimensions(plain, importance(plain)) == []
    query[2, :, 37] *= 20
    key[1, :, 5] *= 20
    rotary = {"frequencies": [0.5**pair for pair in range(32)], "halves": True}
    planted = stored(tmp_path, [(query, key, ScoreSpec(scale=0.1))], rotary=rotary)
    found = massive_dimensions(planted, importance(planted))
    assert {(one.part, one.layer, one.head, one.dimension, one.band) for one in found} == {
        ("query", 0, 2, 37, 5),
        ("key", 0, 1, 5, 5),
    }


def test_bands_are_those_of_the_checked_rotary_embedding(tmp_path):
    query, key = drawn(4, 300, 64, 1), drawn(4, 300, 64, 2)
    query[0, :, 20] *= 20
    query[0, :, 50] *= 20

    def bands(**info) -> dict[int, int | None]:
        analysis = stored(tmp_path, [(query, key, ScoreSpec(scale=0.1))], **info)
        return {one.dimension: one.band for one in massive_dimensions(analysis, importance(analysis))}

    frequencies = [0.5**pair for pair in range(16)]  # half of each head is turned
    assert bands(rotary={"frequencies": frequencies, "halves": True}) == {20: 4, 50: None}
    assert bands(rotary={"frequencies": frequencies, "halves": False}) == {20: None, 50: None}
    for name in ("T5ForConditionalGeneration", "AlbertModel", "LlamaForCausalLM"):
        assert bands(architecture=name, rotary=None) == bands(architecture=name) == {20: None, 50: None}


def test_k04_a_massive_activation_is_found(tmp_path):
    """Normal vectors of four numbers, one of which is 5,000 at one token and 300 at another."""
    stream = drawn(1, 99, 4, 1)[0]
    stream[4, 2], stream[7, 1] = 5000.0, 300.0
    norms, largest = stream.norm(dim=-1), stream.abs().amax(-1)
    analysis = stored(tmp_path, [uniform(99)], hidden=norms, largest=largest)
    middle = median_magnitude(norms.double().numpy(), largest.double().numpy(), 4)
    (found,) = massive_activations(analysis, importance(analysis))
    assert (found.layer, found.position, found.magnitude) == (0, 4, 5000.0)
    assert found.times_median == pytest.approx(5000 / middle, rel=1e-5)
    assert massive_activations(analysis, importance(analysis), large=6000.0) == []
    assert [one.position for one in massive_activations(analysis, importance(analysis), times=500)] == [4, 7]


@pytest.mark.parametrize("width", [256, 576, 2048])
def test_k04_the_median_of_normal_numbers_is_estimated_from_norm_and_largest(width):
    stream = 3.0 * drawn(1, 60, width, 2)[0].double().numpy()
    stream[0, 5] = 24_000.0
    found = median_magnitude(np.linalg.norm(stream, axis=-1), np.abs(stream).max(-1), width)
    assert found == pytest.approx(np.median(np.abs(stream)), rel=0.04)
    nothing = np.full(3, np.nan)
    assert median_magnitude(nothing, nothing, width) is None
