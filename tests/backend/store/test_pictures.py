"""Visible cells of stored blocks: counted from runs of keys, the same as by looking at every cell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from backend.store.pictures import visible_counts
from kernels.measures import pool_edges
from kernels.score import ScoreSpec
from kernels.window import visible

RULES = {
    "causal": ScoreSpec(1.0),
    "window": ScoreSpec(1.0, window=9),
    "window with first keys": ScoreSpec(1.0, window=9, keep_first=4),
    "chunk": ScoreSpec(1.0, chunk=16),
    "two-sided": ScoreSpec(1.0, causal=False),
    "around": ScoreSpec(1.0, causal=False, around=(5, 3)),
    "mask": ScoreSpec(1.0, mask=torch.rand(1, 1, 65, 65, generator=torch.Generator().manual_seed(0)) > 0.4),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("n_query", "n_key", "shape"), [(65, 65, (16, 16)), (63, 65, (7, 16)), (17, 64, (17, 8))])
def test_counts_are_those_of_the_cells(name, n_query, n_key, shape):
    if name == "mask" and (n_query, n_key) != (65, 65):
        pytest.skip("the mask is of 65 x 65 cells")
    seen = visible(RULES[name], n_query, n_key, slice(0, n_query), slice(0, n_key))[0, 0].numpy()
    edges = [pool_edges(n, side).tolist() for n, side in zip((n_query, n_key), shape, strict=True)]
    rows, keys = (list(pairwise(edge)) for edge in edges)
    expected = [[seen[a:b, c:d].sum() for c, d in keys] for a, b in rows]
    assert np.array_equal(visible_counts(RULES[name], n_query, n_key, shape), expected)
