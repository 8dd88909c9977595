"""Block estimates, FlexPrefill's decision and the exported files."""

import json
import math

import numpy as np
import pytest

from backend.errors import Refused
from backend.sparsity import blocks, exports, flexprefill
from backend.sparsity.rows import rows_from, uniform_rows
from backend.types import LayerInfo
from tests.backend.policies.planted import dense, layer

DRAW = np.random.default_rng(0)


def head(n=128, seed=0, strength=2.0):
    """Rows, queries and keys of one head."""
    one = layer(n=n - 1, length=n, heads=1, key_heads=1, seed=seed, strength=strength)
    rows = rows_from(dense(one)[0].numpy(), np.tril(np.ones((n, n), bool)), np.arange(n))
    return rows, one.query[0].double().numpy(), one.key[0].double().numpy(), 8**-0.5


@pytest.mark.parametrize("side", [1, 7, 16, 100])
def test_p07_quest_never_lies_below_the_true_maximum(side):
    query, key = DRAW.normal(size=(40, 8)), DRAW.normal(size=(90, 8))
    edges = np.arange(0, 90, side)
    true = np.maximum.reduceat(query @ key.T, edges, 1)
    assert (blocks.quest_bound(query, key, side) >= true - 1e-12).all()
    if side == 1:
        assert np.allclose(blocks.quest_bound(query, key, 1), query @ key.T)


def test_p07_constant_keys_tie_and_single_keys_are_exact():
    rows, query, key, _ = head()
    flat = np.ones_like(key)
    for scores in (blocks.moba_gate(query, flat, 16), blocks.quest_bound(query, flat, 16)):
        assert np.allclose(scores, scores[:, :1])
    exact = blocks.route(rows, "quest", blocks.quest_bound(query, key, 1), 1, 0.2)
    assert exact.recall == 1 and exact.retained == pytest.approx(exact.best)
    assert blocks.tightness(query, key, rows, 1) == pytest.approx(0, abs=1e-12)
    assert blocks.tightness(query, key, rows, 16) > 0


@pytest.mark.parametrize("name, gate", [("moba", blocks.moba_gate), ("quest", blocks.quest_bound)])
def test_p07_an_estimate_never_beats_the_best_blocks(name, gate):
    rows, query, key, _ = head()
    for side in (8, 16):
        for budget in (0.05, 0.2, 1.0):
            found = blocks.route(rows, name, gate(query, key, side), side, budget)
            assert found.retained <= found.best + 1e-12 and 0 < found.recall <= 1 and 0 < found.density <= 1
    assert found.recall == 1 and found.retained == pytest.approx(1) and found.density == pytest.approx(1)


def test_l06_advice_names_a_choice_and_warns_of_dense_heads():
    rows, query, key, _ = head()
    advice = blocks.advise(rows, query, key)
    assert {row["choice"] for row in advice.table} == {"moba", "quest", "best blocks", "a_shape", "vertical_slash"}
    assert advice.speed_up >= 1 / 0.22
    flat = blocks.advise(uniform_rows(128), np.zeros((128, 8)), np.zeros((128, 8)))
    assert "leave it dense" in flat.warning and flat.retained < 0.9


def test_p05_a_head_without_content_is_a_block_head():
    choice = flexprefill.decide(uniform_rows(128), np.zeros((128, 8)), np.ones((128, 8)), 1.0)
    assert choice.distance < 0.05 and choice.kind == "block", "only the row's own block is seen in part"
    flat = rows_from(np.full((128, 128), 1 / 128), np.ones((128, 128), bool), np.arange(128))
    choice = flexprefill.decide(flat, np.zeros((128, 8)), np.ones((128, 8)), 1.0)
    assert choice.distance == pytest.approx(0, abs=1e-8) and choice.kind == "block"
    assert 0.85 < choice.retained == pytest.approx(choice.density)


def test_p05_blocks_that_nobody_may_see_get_nothing():
    draw = np.random.default_rng(1)
    key = draw.normal(size=(512, 8))
    choice = flexprefill.decide(uniform_rows(512, window=32), np.zeros((512, 8)), key, 1.0)
    assert choice.distance < 0.05 and choice.kind == "block", "a window of uniform attention has no content either"
    assert choice.density > 0.85, "no part of the budget goes to blocks outside the window"
    chunk = np.tril(np.ones((512, 512), bool)) & (np.arange(512) // 128 == np.arange(512)[:, None] // 128)
    rows = rows_from(chunk / chunk.sum(-1, keepdims=True), chunk, np.arange(512))
    assert flexprefill.decide(rows, np.zeros((512, 8)), key, 1.0).kind == "block"


def test_p05_attention_on_one_key_that_means_do_not_show_is_stripes():
    n = 128
    weights = np.zeros((n, n))
    weights[:, 40] = 1
    weights[:40, :] = np.tril(np.ones((n, n)))[:40]
    rows = rows_from(weights / weights.sum(-1, keepdims=True), np.tril(np.ones((n, n), bool)), np.arange(n))
    choice = flexprefill.decide(rows, np.zeros((n, 8)), np.zeros((n, 8)), 1.0)
    assert choice.kind == "vertical_slash" and choice.distance > 0.6 and choice.distance <= math.sqrt(math.log(2))
    assert choice.retained > 0.7 and choice.density < 0.5


def test_p05_jensen_shannon():
    assert flexprefill.divergence_between(np.array([1.0, 0]), np.array([0, 1.0])) == pytest.approx(math.log(2))
    assert flexprefill.divergence_between(np.array([0.5, 0.5]), np.array([1.0, 0])) == pytest.approx(0.215762, abs=1e-6)
    assert flexprefill.smallest_set(np.array([0.1, 0.6, 0.3]), 0.9).tolist() == [1, 2]


def record(layer, head, pattern, **given):
    sizes = dict.fromkeys(("pattern_first", "pattern_window", "pattern_columns", "pattern_diagonals", "pattern_blocks"))
    return {"layer": layer, "head": head, "pattern": pattern, "streaming_retained": 0.75, "streaming_first": 4,
            "streaming_recent": 9, **sizes, **given}  # fmt: skip


ROWS = [
    record(0, 0, "a_shape", pattern_first=4, pattern_window=60, a_shape_retained=0.91),
    record(0, 1, "vertical_slash", pattern_columns=2, pattern_diagonals=3, vertical_slash_retained=0.8),
    record(3, 0, "block", pattern_blocks=2, block_retained=0.7),
    record(3, 1, "dense", streaming_retained=0.25),
]


def infos(heads=2, key_heads=1):
    """Layers 0 and 3 have attention, 1 was not kept, 2 has none."""
    kinds = ("softmax", "softmax", "mamba", "softmax")
    return [LayerInfo("self", at, f"layers.{at}", kind, heads, key_heads, 8, 8) for at, kind in enumerate(kinds)]


def test_minference_file():
    """The entry of a layer stands at its number; what was not measured skips nothing."""
    dense_head = ["vertical_and_slash", 128, 128, 1.0]
    assert json.loads(exports.minference_json(ROWS, infos(), 128)) == [
        {"0": ["stream_llm", 4, 60, 0.91], "1": ["vertical_and_slash", 2, 3, 0.8]},
        {"0": dense_head, "1": dense_head},
        {},
        {"0": ["block_sparse", 2, 1, 0.7], "1": dense_head},
    ]
    with pytest.raises(Refused, match="exact maps were not kept"):
        exports.minference_json([], infos(), 10)


def test_duo_attention_file():
    rows = [*ROWS, record(1, 0, "dense"), record(1, 1, "dense")]
    found = json.loads(exports.duo_attention_json(rows, infos(), slice(3, 9)))
    assert found == {"sink_size": 4, "recent_size": 9, "measured_rows": [3, 9],
                     "full_attention_heads": [[0.25], [0.25], [], [0.5]]}  # fmt: skip
    found = json.loads(exports.duo_attention_json(rows, infos(key_heads=2), slice(0, 9)))
    assert found["full_attention_heads"] == [[0.25, 0.25], [0.25, 0.25], [], [0.25, 0.75]]


def test_duo_attention_file_needs_every_head():
    """Also where the heads that are there can be divided among the key heads, and where a whole layer is missing."""
    with pytest.raises(Refused, match="of layer 1 not all were kept exactly"):
        exports.duo_attention_json(ROWS, infos(), slice(0, 9))
    twelve = [record(0, head, "dense") for head in range(12)]
    with pytest.raises(Refused, match="of layer 0 not all were kept exactly"):
        exports.duo_attention_json(twelve, infos(16, 4)[:1], slice(0, 9))
