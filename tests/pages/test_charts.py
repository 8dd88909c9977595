"""Charts: as many marks as values, in the order given, every text literal."""

import json

import numpy as np
import pytest

from pages.shared.charts.ranked_heads import PICKED, ranked_heads
from pages.shared.charts.row_bars import row_bars, strongest_keys

HOSTILE = ["<s>", "·a.b", "[CLS]", "it's", "back\\slash", "</script><img src=x onerror=alert(1)>", "·", "↵", "$5"]


def values_of(chart) -> list[dict]:
    return chart.to_dict()["layer"][0]["data"]["values"]


def test_ranked_heads_keep_their_order_and_mark_the_selected():
    chart = ranked_heads(
        ["12.3", "0.1", "2.10"], [0.9, 0.5, 0.5], selected="0.1", title="first mass (weight)", uniform=0.2
    )
    rows = values_of(chart)
    assert [row["head"] for row in rows] == ["12.3", "0.1", "2.10"]
    assert [row["name"] for row in rows] == ["12.3", "▸ 0.1", "2.10"]
    spec = chart.to_dict()
    assert spec["layer"][0]["encoding"]["y"]["sort"] == ["12.3", "▸ 0.1", "2.10"]
    assert spec["layer"][1]["data"]["values"] == [{"uniform": 0.2}]
    assert PICKED in json.dumps(spec["params"])


def test_ranked_heads_without_baseline_draw_no_line():
    assert ranked_heads(["0.0"], [1.0], selected="0.0", title="x").to_dict()["layer"][1]["data"]["values"] == []


def test_row_bars_have_one_bar_per_key_with_literal_labels():
    weights = np.full(len(HOSTILE), 1 / len(HOSTILE))
    rows = values_of(row_bars(weights, np.ones(len(HOSTILE), bool), HOSTILE, sinks=(0,)))
    assert [row["whole"] for row in rows] == [f"{index} {label}" for index, label in enumerate(HOSTILE)]
    assert [row["what"] for row in rows] == ["sink"] + ["key"] * (len(HOSTILE) - 1)


def test_the_same_word_twice_is_two_bars_in_reading_order():
    rows = values_of(row_bars(np.array([0.1, 0.7, 0.2]), np.ones(3, bool), ["cat", "sat", "cat"]))
    assert [row["label"] for row in rows] == ["0 cat", "1 sat", "2 cat"]


def test_row_bars_of_a_long_row_are_the_strongest_in_reading_order():
    weights = np.linspace(0.001, 1, 9000)
    rows = values_of(row_bars(weights, np.ones(9000, bool), [str(i) for i in range(9000)], most=5))
    assert [row["key"] for row in rows] == [8995, 8996, 8997, 8998, 8999]


def test_row_bars_leave_out_invisible_and_unreal_weights():
    weights = np.array([0.5, np.nan, np.inf, 0.0, 0.4])
    visible = np.array([True, True, True, True, False])
    assert strongest_keys(weights, visible, 10).tolist() == [0, 3]


@pytest.mark.parametrize("seen", [1, 4])
def test_the_baseline_counts_visible_keys_only(seen):
    visible = np.arange(6) < seen
    spec = row_bars(np.where(visible, 1 / seen, 0), visible, list("abcdef")).to_dict()
    assert spec["layer"][1]["data"]["values"] == [{"uniform": 1 / seen}]
    assert len(spec["layer"][0]["data"]["values"]) == seen
