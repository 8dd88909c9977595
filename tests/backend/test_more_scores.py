"""Gini (H-02), offsets (H-03) and classes of tokens (H-06) on models whose heads were set by hand."""

import math

import numpy as np
import pytest
import torch

from backend.atlas import read_atlas
from backend.head_classes import CLASSES, class_masses, classes_of
from backend.pipeline import analyse
from backend.sampled_scores import sampled_scores
from backend.types import Token
from kernels.score import ScoreSpec
from tests.backend.hand_set_heads import BETA, one_head_model
from tests.backend.sinks.planted import stored, uniform

E = math.exp(BETA)
TEXT = "a b c d . e f g , h i j . k l m , n o p . q r s , t u v"


@pytest.fixture(scope="module")
def analyses():
    """kind of head -> the analysis of one text by a model with nothing but such a head."""
    return {kind: analyse(one_head_model(kind), TEXT) for kind in ("sink", "broad", "previous_token", "delimiter")}


def dense_gini(row: np.ndarray) -> float:
    """By the mean of all absolute differences, another form of the same number."""
    return float(np.abs(np.subtract.outer(row, row)).mean() / (2 * row.mean()))


def test_h02_the_dyadic_row_has_its_published_gini():
    assert dense_gini(np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16])) == pytest.approx(0.425, abs=1e-12)


def test_h02_gini_of_heads_is_that_of_the_dense_rows(analyses):
    for kind in ("sink", "broad"):
        analysis = analyses[kind]
        found = sampled_scores(analysis, "self")["gini_mean"][0, 0]
        weights = analysis.map(0, 0).astype(float)
        n = len(weights)  # fewer than 64 rows: all of them are read
        expected = np.mean([dense_gini(weights[row, : row + 1]) for row in range(1, n)])
        assert found == pytest.approx(expected, abs=1e-6)
        assert (found < 1e-6) == (kind == "broad")
        atlas = read_atlas(analysis, "self", sampled={"gini_mean": {(0, 0): found}})
        assert atlas.of(0, 0)["gini_mean"] == found and atlas.uniform["gini_mean"][0] == 0


def test_h02_large_maps_are_read_row_by_row(analyses, monkeypatch):
    monkeypatch.setattr("backend.sampled_scores.SMALL_MAP", 0)
    weights = analyses["sink"].map(0, 0).astype(float)
    rows = np.unique(np.linspace(len(weights) - 1, 0, 16).round().astype(int))
    expected = np.mean([dense_gini(weights[row, : row + 1]) for row in rows if row])
    assert sampled_scores(analyses["sink"], "self")["gini_mean"][0, 0] == pytest.approx(expected, abs=1e-6)


def test_h03_offsets_have_their_closed_forms(analyses):
    atlas, n = read_atlas(analyses["previous_token"], "self"), analyses["previous_token"].info["n_tokens"]
    keys = np.arange(1, n + 1)
    values = atlas.of(0, 0)
    # A row with its previous token gives it E / (E + n - 1), every other key 1 / (E + n - 1).
    assert values["best_offset"] == 1
    assert values["best_offset_weight"] == pytest.approx((E / (E + keys - 1))[1:].mean(), abs=1e-6)
    assert values["offset_2"] == pytest.approx((1 / (E + keys - 1))[2:].mean(), abs=1e-6)
    assert values["previous_template_share"] == pytest.approx((E / (E + keys - 1))[1:].sum() / n, abs=1e-6)
    uniform = read_atlas(analyses["broad"], "self")
    for back in (2, 3, 4):
        assert uniform.of(0, 0)[f"offset_{back}"] == pytest.approx((1 / keys)[back:].mean(), abs=1e-6)


def test_h07_the_signed_distance_is_that_of_the_dense_map_and_only_where_attention_looks_both_ways(tmp_path, analyses):
    query, key = (torch.randn(1, 20, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    both = stored(tmp_path, [(query, key, ScoreSpec(scale=1.0, causal=False))])
    weights = both.map(0, 0).astype(float)
    expected = (weights * np.subtract.outer(np.arange(20), np.arange(20))).sum() / weights.sum()
    assert read_atlas(both, "self").of(0, 0)["signed_distance"] == pytest.approx(expected, abs=1e-4)
    assert math.isnan(read_atlas(analyses["broad"], "self").of(0, 0)["signed_distance"])


def test_h06_masses_of_all_kinds_add_up_to_one_and_uniform_has_lift_one(analyses):
    for kind, analysis in analyses.items():
        masses = class_masses(analysis, "self", 0, 0)
        kinds = [one for one in masses if not one.of_prompt]
        assert sum(one.mass for one in kinds) == pytest.approx(1, abs=1e-5)
        assert sum(one.uniform for one in kinds) == pytest.approx(1, abs=1e-5)
        assert sum(one.tokens for one in kinds) == analysis.info["n_tokens"]
        if kind == "broad":
            assert [one.lift for one in kinds] == pytest.approx([1.0] * len(kinds), abs=1e-4)


def test_h06_masses_are_those_of_the_dense_map(analyses):
    analysis = analyses["delimiter"]
    weights, n = analysis.map(0, 0).astype(float), analysis.info["n_tokens"]
    masses = {one.name: one for one in class_masses(analysis, "self", 0, 0)}
    names = np.array(classes_of(analysis.tokens_list(), analysis.info.get("bos_token_id")))
    keys = np.arange(1, n + 1)
    for name in set(names):
        own = names == name
        assert masses[name].mass == pytest.approx(weights[1:, own].sum(1).mean(), abs=1e-5), name
        assert masses[name].uniform == pytest.approx((np.cumsum(own) / keys)[1:].mean(), abs=1e-5), name
    assert masses["punctuation"].lift > 2 and masses["content word"].lift < 1
    assert max(masses.values(), key=lambda one: one.mass if not one.of_prompt else 0).name == "punctuation"


def test_h06_a_row_with_one_key_is_in_no_mass(tmp_path):
    window = stored(tmp_path, [uniform(24, ScoreSpec(scale=1.0, window=1))])
    masses = class_masses(window, "self", 0, 0)
    assert len(masses) >= 2 and all(math.isnan(one.lift) for one in masses)
    assert [one.mass for one in masses] == pytest.approx([0.0] * len(masses), abs=1e-6)
    learned = stored(
        tmp_path, [(torch.zeros(1, 24, 4), torch.zeros(1, 24, 4), ScoreSpec(scale=1.0, sink=torch.zeros(1)))]
    )
    kinds = [one for one in class_masses(learned, "self", 0, 0) if not one.of_prompt]
    n = np.arange(2, 25)
    assert sum(one.mass for one in kinds) == pytest.approx((n / (n + 1)).mean(), abs=1e-5)  # the rest: learned sink


def test_h06_kinds_of_token():
    pieces = [
        ("<s>", True), ("The", False), (" cat", False), (" un", False), ("tied", False), (",", False), (" 42", False),
        ("\n", False), ("of", False), ("</s>", True), ("<|im_start|>x", True), ("<image>", True),
        ("It", False), ("'s", False),
    ]  # fmt: skip
    word = [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    tokens = [
        Token(at, at, text, text, text, text.encode(), 0, 0, special, 0, word[at])
        for at, (text, special) in enumerate(pieces)
    ]
    found = classes_of(tokens, None)
    assert found == [
        "begin of text", "function word", "content word", "content word", "content word", "punctuation", "digits",
        "newline", "function word", "end or separator", "template", "image", "function word", "function word",
    ]  # fmt: skip
    assert set(found) <= set(CLASSES)
    assert classes_of(tokens[2:3], None) == ["first token"]
