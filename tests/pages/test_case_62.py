"""Case 62: visits leave nothing behind but what the bounded stores keep."""

import gc

import pytest
import torch

from backend.store import Analysis
from backend.store.connections import MOST_OPEN, connections
from backend.store.decoded import MOST_BYTES, decoded
from pages.shared.opened import shelf
from tests.stored import store

VISITS = 6


def held() -> tuple[int, int]:
    """Live analyses, and bytes of live tensors."""
    gc.collect()
    things = gc.get_objects()
    tensors = {thing.data_ptr(): thing.nbytes for thing in things if type(thing) is torch.Tensor}
    return sum(type(thing) is Analysis for thing in things), sum(tensors.values())


@pytest.mark.parametrize("page", ["heads"])
def test_case_62_memory_does_not_climb_with_visits(open_page, library, page, monkeypatch):
    """Each visitor opens an analysis of their own and closes the tab; sessions hold no tensors."""
    monkeypatch.setattr(decoded, "_most", 200_000)  # bytes: so small that these visits fill it
    ids = [store(library.folder, n_tokens=60, title=f"visit {n}") for n in range(VISITS)]
    first = ids[:2]
    for id in first:
        app = open_page(page, analysis=id)
        assert not app.exception
        del app
    analyses, tensors = held()
    for id in ids[2:]:
        app = open_page(page, analysis=id)
        assert not app.exception
        del app
    _, after_tensors = held()
    assert decoded._bytes <= 200_000 <= MOST_BYTES
    assert after_tensors <= tensors + 200_000
    assert connections.open_files() <= MOST_OPEN
    for id in ids:
        shelf().own._opened.let_go(id)
    assert held()[0] <= analyses, "no session that ended holds its analysis"
