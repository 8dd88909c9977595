"""Similarity of heads (methods H-08): closed forms of the divergence, the scaling, the groups, and stored analyses."""

import math

import numpy as np
import pytest

from backend.errors import Refused
from backend.head_similarity import blocks_of, classical_scaling, clusters, compare_heads, divergences
from backend.store import Library
from tests.stored import store


def rows(*distributions):
    return np.array(distributions, np.float32)[:, None]


def test_divergence_has_its_closed_forms():
    found = divergences(rows([0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]))
    assert found[1, 2] == pytest.approx(math.log(2), abs=1e-6)  # disjoint
    assert found[0, 1] == pytest.approx(0.215762, abs=1e-6)
    assert found[1, 3] == 0.0 and (found == found.T).all() and (np.diag(found) == 0).all()


def test_the_root_of_the_divergence_keeps_the_triangle():
    draw = np.random.default_rng(0)
    shares = draw.dirichlet(np.full(7, 0.3), size=(12, 5)).astype(np.float32)
    root = np.sqrt(divergences(shares))
    assert (root[:, None] <= root[:, :, None] + root[None] + 1e-6).all()


def test_scaling_gives_back_places_in_the_plane():
    draw = np.random.default_rng(1)
    truth = draw.normal(size=(20, 2))
    distance = np.linalg.norm(truth[:, None] - truth[None], axis=-1)
    places, shown = classical_scaling(distance)
    assert np.linalg.norm(places[:, None] - places[None], axis=-1) == pytest.approx(distance, abs=1e-9)
    assert shown == pytest.approx(1.0)


def test_scaling_of_equal_heads_is_one_point():
    places, shown = classical_scaling(np.zeros((3, 3)))
    assert (places == 0).all() and shown == 1.0


def test_groups_are_those_that_were_made():
    draw = np.random.default_rng(2)
    centres = np.array([[0, 0], [10, 0], [0, 10]])
    group = np.repeat([0, 1, 2], [9, 6, 4])
    points = centres[group] + draw.normal(size=(19, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert (clusters(distance, 3) == group).all()
    assert (clusters(distance, 1) == 0).all() and len(set(clusters(distance, 19))) == 19


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("row", [0, 5, 700, 1999])
def test_shortened_rows_keep_every_key_once(row, causal):
    found = blocks_of(row, 2000, causal)
    assert set(found) == set(range(found.max() + 1)) and found.max() < 256
    assert (len(set(found[:32])) == 32 and row < 128) or (np.bincount(found)[found[row]] == 1)
    assert (blocks_of(3, 256, causal) == np.arange(256)).all()


def test_a_shortened_divergence_is_never_larger():
    draw = np.random.default_rng(3)
    shares = draw.dirichlet(np.full(600, 0.05), size=(6, 1)).astype(np.float32)
    bins = blocks_of(599, 600, True)
    short = np.zeros((6, 1, bins.max() + 1), np.float32)
    for at in range(6):
        short[at, 0] = np.bincount(bins, weights=shares[at, 0])
    assert (divergences(short) <= divergences(shares) + 1e-6).all()


def test_heads_of_a_stored_analysis_against_their_whole_maps(data_folder):
    analysis = Library(data_folder).open(store(data_folder, n_tokens=14))
    found = compare_heads(analysis, "self")
    assert found.rows == tuple(range(1, 14)) and not found.merged and found.missing == 0
    assert found.heads == tuple((layer, head) for layer in (0, 1) for head in range(4))
    maps = np.stack([analysis.map(*head)[1:] for head in found.heads]).astype(np.float64)

    def entropy(p):
        return -(p * np.log(np.where(p > 0, p, 1))).sum(-1)

    expected = entropy((maps[:, None] + maps[None]) / 2) - (entropy(maps)[:, None] + entropy(maps)[None]) / 2
    assert found.divergence == pytest.approx(expected.mean(-1), abs=1e-5)
    nearest = found.like(0, 0, most=2)
    order = np.argsort(found.divergence[0])
    assert [one[:2] for one in nearest] == [found.heads[at] for at in order[1:3]]


def test_heads_without_exact_maps_are_left_out_and_counted(data_folder):
    library = Library(data_folder)
    found = compare_heads(library.open(store(data_folder, n_tokens=40, exact=(1, 3))), "self")
    assert found.heads == ((0, 1), (0, 3), (1, 1), (1, 3)) and found.missing == 4
    assert found.like(0, 0) == [] and len(found.rows) == 16 and found.rows[-1] == 39
    with pytest.raises(Refused, match="Fewer than two heads"):
        compare_heads(library.open(store(data_folder, n_tokens=40, exact=())), "self")
    with pytest.raises(Refused, match="sees two keys"):
        compare_heads(library.open(store(data_folder, n_tokens=1)), "self")
