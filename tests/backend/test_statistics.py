"""The shelf of statistics against values that can be worked out by hand (docs/methods.md names the fixtures)."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from backend import statistics
from backend.baselines import uniform_measures, uniform_statistics
from backend.types import LayerInfo
from kernels import measures as m
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

NAMES = {
    "entropy", "effective_keys", "first_key_importance", "first_mass", "previous_token", "self_attention",
    "duplicate_token", "induction", "mean_distance", "local_mass_64", "max_weight", "negligible_share",
}  # fmt: skip
SELF = LayerInfo("self", 0, "layers.0", "softmax", 1, 1, 8, 8)
CAUSAL = ScoreSpec(scale=1.0)
METHODS = Path(__file__).resolve().parents[2] / "docs" / "methods.md"


def measured(score, n_query, n_key=None, *, tokens=None, impl="reference"):
    """Measures of one head whose queries and keys say nothing: what the score's biases make of it."""
    n_key = n_key or n_query
    query, key = torch.zeros(1, 1, n_query, 8), torch.zeros(1, 1, n_key, 8)
    request = MeasureRequest(tokens=None if tokens is None else torch.as_tensor(tokens)[None])
    attended = attend(query, key, key, score, request, impl=impl)
    return {name: values[0] for name, values in attended.measures.items() if values.ndim > 1}


def value(name, measures, info=SELF):
    result = statistics.all()[name].compute(measures, info)
    assert result.dtype == np.float64 and result.shape == (measures["visible_keys"].shape[0],)
    return float(result[0])


def planted(n, target, strength=8.0):
    """Causal attention whose score is `strength` on the target of each row and 0 elsewhere."""
    bias = torch.zeros(1, 1, n, n)
    for row in range(n):
        if (key := target(row)) is not None and 0 <= key <= row:
            bias[0, 0, row, key] = strength
    return ScoreSpec(scale=1.0, bias=bias)


def test_the_shelf_holds_the_promised_names_and_nothing_else():
    assert set(statistics.all()) >= NAMES  # the ones other parts rely on


@pytest.mark.parametrize("name", sorted(statistics.all()))
def test_every_statistic(name):
    statistic = statistics.all()[name]
    caption = statistic.caption
    assert caption[0].isupper() and caption.endswith(".") and caption.count(". ") == 0, "one sentence"
    assert statistic.formula and statistic.unit
    low, high = statistic.range
    assert low < high

    query, key = torch.randn(1, 6, 40, 8) * 3, torch.randn(1, 2, 40, 8) * 3
    request = MeasureRequest(tokens=torch.arange(40)[None] % 3)
    for score in (CAUSAL, replace(CAUSAL, window=5), ScoreSpec(scale=1.0, causal=False)):
        attended = attend(query, key, key, score, request, impl="reference")
        measures = {n: v[0] for n, v in attended.measures.items() if v.ndim > 1}
        result = statistic.compute(measures, replace(SELF, heads=6, key_heads=2))
        assert result.shape == (6,) and result.dtype == np.float64
        assert np.isfinite(result).all()
        assert (result >= low).all() and (result <= high).all()


@pytest.mark.parametrize("name", sorted(statistics.all()))
def test_every_statistic_is_explained_where_users_read(name):
    text = METHODS.read_text("utf-8")
    statistic = statistics.all()[name]
    assert f"### {name}\n" in text, f"docs/methods.md lacks the heading '### {name}'"
    section = text.split(f"### {name}\n")[1].split("\n###")[0]
    for part in (statistic.caption, statistic.formula, statistic.unit):
        assert part in " ".join(section.split()), f"docs/methods.md, {name}: lacks {part!r}"


def test_every_measure_is_explained_where_users_read():
    named = [m.COUNTS, *(table for name, table in vars(m).items() if name.endswith("_MEASURES"))]
    text = METHODS.read_text("utf-8")
    assert not {name for table in named for name in table if f"`{name}`" not in text}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("entropy", 1.325575),
        ("effective_keys", 4.5),
        ("first_key_importance", 0.339732),
        ("first_mass", 0.245408),
        ("previous_token", 0.245408),
        ("self_attention", 0.245408),
        ("mean_distance", 2.0),
        ("local_mass_64", 1.0),
        ("max_weight", 0.245408),
        ("negligible_share", 0.0),
    ],
)
def test_uniform_causal_attention_over_8_tokens(name, expected):
    assert value(name, measured(CAUSAL, 8)) == pytest.approx(expected, abs=1e-6)


def repeated(length=50):
    """BOS and two copies of `length` distinct tokens."""
    return [0, *range(1, length + 1), *range(1, length + 1)]


def test_planted_previous_token_head():
    measures = measured(planted(101, lambda row: row - 1), 101)
    assert value("previous_token", measures) == pytest.approx(0.983430525, abs=1e-8)
    assert value("previous_token", measured(CAUSAL, 101)) == pytest.approx(0.041972785, abs=1e-8)


def test_planted_induction_head():
    second = lambda row: row - 49 if row > 50 else None  # noqa: E731
    measures = measured(planted(101, second), 101, tokens=repeated())
    assert value("induction", measures) == pytest.approx(0.975319947, abs=1e-8)
    assert value("induction", measured(CAUSAL, 101, tokens=repeated())) == pytest.approx(0.013569307, abs=1e-8)


def test_planted_duplicate_head():
    second = lambda row: row - 50 if row > 50 else None  # noqa: E731
    measures = measured(planted(101, second), 101, tokens=repeated())
    assert value("duplicate_token", measures) == pytest.approx(0.975319947, abs=1e-8)


def test_planted_sink():
    measures = measured(planted(101, lambda row: 0), 101)
    assert value("first_key_importance", measures) == pytest.approx(0.983594579, abs=1e-8)


def test_window_counts_the_visible_keys_only():
    n, window = 100, 16
    measures = measured(replace(CAUSAL, window=window), n)
    counts = [min(i + 1, window) for i in range(n)]
    assert value("first_key_importance", measures) == pytest.approx(0.211296, abs=1e-6)
    assert value("entropy", measures) == pytest.approx(np.mean(np.log(counts)), abs=1e-6)
    assert value("effective_keys", measures) == pytest.approx(np.mean(counts), abs=1e-5)
    assert value("mean_distance", measures) == pytest.approx(np.mean([(c - 1) / 2 for c in counts[1:]]), abs=1e-6)
    assert value("previous_token", measures) == pytest.approx(np.mean([1 / c for c in counts[1:]]), abs=1e-6)


def test_local_mass_leaves_far_keys_and_the_first_row_out():
    n = 200
    expected = np.mean([min(64, i + 1) / (i + 1) for i in range(1, n)])
    assert value("local_mass_64", measured(CAUSAL, n)) == pytest.approx(expected, abs=1e-6)
    both_sides = [sum(abs(i - j) < 64 for j in range(n)) / n for i in range(n)]
    bidirectional = measured(ScoreSpec(scale=1.0, causal=False), n)
    assert value("local_mass_64", bidirectional) == pytest.approx(np.mean(both_sides), abs=1e-6)
    assert value("mean_distance", bidirectional) == pytest.approx(
        np.mean([abs(i - j) for i in range(n) for j in range(n)]), abs=1e-4
    )


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(name, side):
    tokens, pad = [5, 6, 5, 6, 7, 5, 6, 8], [0, 0, 0]
    real = torch.tensor([[False] * 3 + [True] * 8 if side == "left" else [True] * 8 + [False] * 3])
    padded = measured(replace(CAUSAL, key_padding=real), 11, tokens=pad + tokens if side == "left" else tokens + pad)
    assert value(name, padded) == pytest.approx(value(name, measured(CAUSAL, 8, tokens=tokens)), abs=1e-6)


def test_rows_that_continue_a_text():
    # The last 4 rows of 12 keys, as in a chunk of a prefill: positions 8 .. 11.
    measures = measured(CAUSAL, 4, 12)
    assert value("effective_keys", measures) == pytest.approx(np.mean([9, 10, 11, 12]), abs=1e-5)
    assert value("mean_distance", measures) == pytest.approx(np.mean([8, 9, 10, 11]) / 2, abs=1e-6)
    assert value("local_mass_64", measures) == pytest.approx(1.0, abs=1e-6)


def test_a_learned_sink_is_one_more_outcome_and_takes_its_share():
    n = 12
    measures = measured(replace(CAUSAL, sink=torch.tensor([0.0])), n)
    counts = np.arange(1, n + 1)
    assert value("entropy", measures) == pytest.approx(np.mean(np.log(counts + 1)), abs=1e-6)
    assert value("self_attention", measures) == pytest.approx(np.mean(1 / (counts[1:] + 1)), abs=1e-6)
    assert value("local_mass_64", measures) == pytest.approx(np.mean(counts[1:] / (counts[1:] + 1)), abs=1e-6)


def test_cross_attention_has_no_positions_in_common():
    cross = replace(SELF, kind="cross")
    measures = measured(ScoreSpec(scale=1.0, causal=False), 5, 12)
    for name in ("previous_token", "self_attention", "mean_distance", "local_mass_64", "induction", "duplicate_token"):
        assert math.isnan(value(name, measures, cross)), name
    assert value("effective_keys", measures, cross) == pytest.approx(12, abs=1e-5)
    assert value("first_key_importance", measures, cross) == pytest.approx(1 / 12, abs=1e-6)


def test_one_token_has_no_row_with_a_choice():
    measures = measured(CAUSAL, 1, tokens=[3])
    assert value("entropy", measures) == 0 and value("effective_keys", measures) == 1
    assert value("first_key_importance", measures) == 1
    for name in ("first_mass", "previous_token", "self_attention", "mean_distance", "local_mass_64", "max_weight"):
        assert math.isnan(value(name, measures)), name


@pytest.mark.parametrize("name", sorted(NAMES))
def test_uniform_value_is_that_of_queries_that_say_nothing(name):
    n, tokens = 60, [i % 3 for i in range(60)]
    hidden = torch.zeros(1, 1, n)
    hidden[..., 20:25] = -torch.inf  # keys hidden by an intervention
    learned = replace(CAUSAL, sink=torch.tensor([2.0]), softcap=3.0)
    for score, plain in [
        (learned, CAUSAL),
        (
            replace(CAUSAL, window=7, keep_first=2, key_bias=torch.randn(1, 1, n)),
            replace(CAUSAL, window=7, keep_first=2),
        ),
        (replace(CAUSAL, key_bias=hidden), replace(CAUSAL, key_bias=hidden)),
        (ScoreSpec(scale=1.0, causal=False, around=(4, 2)), ScoreSpec(scale=1.0, causal=False, around=(4, 2))),
    ]:
        baseline = uniform_statistics(
            uniform_measures(score, n, n, tokens=torch.tensor(tokens)[None], impl="tiled"), SELF
        )
        assert set(baseline) >= NAMES
        assert baseline[name] == pytest.approx(value(name, measured(plain, n, tokens=tokens)), abs=1e-5)
