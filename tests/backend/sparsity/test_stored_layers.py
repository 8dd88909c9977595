"""Stored layers as policies see them."""

from dataclasses import replace

from backend.sparsity.stored_layers import stored_layers
from backend.store import Library
from tests import stored


def test_value_norms_that_were_not_stored_are_none_and_not_zero(tmp_path, monkeypatch):
    known = stored_layers(Library(tmp_path).open(stored.store(tmp_path)), "self")[0]().value_norm
    assert known.shape == (2, 24) and (known > 0).all()
    plain = stored.record
    monkeypatch.setattr(stored, "record", lambda *given: replace(plain(*given), value_norm=None))
    assert stored_layers(Library(tmp_path).open(stored.store(tmp_path)), "self")[0]().value_norm is None
