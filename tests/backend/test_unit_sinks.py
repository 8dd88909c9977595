"""Attention between units without the sinks of the head (K-05), and maps that are gone through in strips."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from backend import unit_attention
from backend.detected import sinks_of
from backend.errors import Refused
from backend.sink_free import without_sinks
from backend.unit_attention import Units, between, profile
from backend.words import Group, gather, numbers_of
from kernels.score import ScoreSpec
from tests.backend.sinks.planted import sink_at, stored

CUT = [0, 1, 4, 9, 10, 18, 30, 40]


def units() -> Units:
    """Seven units of unlike size over forty tokens."""
    cut = [Group(start, end, "", "x") for start, end in pairwise(CUT)]
    return Units(cut, cut, numbers_of(cut, 40), numbers_of(cut, 40))


def dense(analysis, sinks):
    """The whole map without its sinks, and between the units of the test."""
    weights, seen = without_sinks(analysis.map(0, 0), analysis.visible(0, 0), sinks)
    own = units()
    return weights, gather(np.nan_to_num(weights), seen, own.query_of, own.key_of, 7, 7, sees=seen.any(1))


@pytest.mark.parametrize("strip", [1, 90, 2**22])
def test_k05_units_without_sinks_are_those_of_the_renormalised_map(tmp_path, monkeypatch, strip):
    monkeypatch.setattr(unit_attention, "STRIP", strip)
    analysis = stored(tmp_path, [sink_at(40, 0, 3.0)])
    sinks = sinks_of(analysis, 0, 0)
    assert sinks == (0,)
    weights, (whole, seen) = dense(analysis, sinks)
    # Without its sink, row i of this head looks at its i other keys alike.
    assert weights[20, 1:21] == pytest.approx(np.full(20, 1 / 20), abs=1e-6)
    for number in range(1, 7):
        row, visible = profile(analysis, 0, 0, "self", units(), [number], "from", sinks)
        assert row == pytest.approx(whole[number], abs=1e-6) and (visible == seen[number]).all()
        assert row.sum() == pytest.approx(1) and not visible[0]
        column, visible = profile(analysis, 0, 0, "self", units(), [number], "to", sinks)
        assert column == pytest.approx(whole[:, number], abs=1e-6) and (visible == seen[:, number]).all()
    part, _ = between(analysis, 0, 0, "self", units(), slice(2, 6), slice(1, 4), sinks)
    assert part == pytest.approx(whole[2:6, 1:4], abs=1e-6)
    nothing, visible = profile(analysis, 0, 0, "self", units(), [0], "from", sinks)
    assert not nothing.any() and not visible.any()  # row 0 sees only the sink
    both, _ = profile(analysis, 0, 0, "self", units(), [0, 2], "from", sinks)
    assert both == pytest.approx(whole[2], abs=1e-6)  # a row with nothing left is in no mean


def test_k05_a_learned_sink_is_taken_out_of_units_too(tmp_path):
    query, key = torch.zeros(1, 40, 4), torch.zeros(1, 40, 4)
    analysis = stored(tmp_path, [(query, key, ScoreSpec(scale=1.0, sink=torch.tensor([3.0])))])
    plain, _ = profile(analysis, 0, 0, "self", units(), [6], "from")
    rest, _ = profile(analysis, 0, 0, "self", units(), [6], "from", ())
    assert plain.sum() < 0.7 and rest.sum() == pytest.approx(1)
    assert rest == pytest.approx(dense(analysis, ())[1][0][6], abs=1e-6)


def test_more_than_a_page_waits_for_is_refused_with_both_numbers(tmp_path, monkeypatch):
    analysis = stored(tmp_path, [sink_at(40, 0, 3.0)])
    monkeypatch.setattr(unit_attention, "MOST_CELLS", 400)
    with pytest.raises(Refused, match=r"12 rows of 40 keys, 480 weights.*at most 400.*smaller unit"):
        profile(analysis, 0, 0, "self", units(), [5], "from")
    row, _ = profile(analysis, 0, 0, "self", units(), [6], "from")
    assert row.sum() == pytest.approx(1)


@pytest.mark.parametrize("strip", [1, 77])
def test_strips_do_not_change_what_is_added_up(tmp_path, monkeypatch, strip):
    analysis = stored(tmp_path, [sink_at(40, 0, 3.0)])
    whole = between(analysis, 0, 0, "self", units(), slice(0, 7), slice(0, 7))
    monkeypatch.setattr(unit_attention, "STRIP", strip)
    again = between(analysis, 0, 0, "self", units(), slice(0, 7), slice(0, 7))
    assert again[0] == pytest.approx(whole[0], abs=1e-12) and (again[1] == whole[1]).all()
    assert whole[0].sum(1) == pytest.approx(np.ones(7))
